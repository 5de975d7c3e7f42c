import type { StreamItem } from "@trl-dev/trl";

export async function collect(stream: AsyncIterable<StreamItem>): Promise<StreamItem[]> {
  const items: StreamItem[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

/** What was printed, both streams in their order. */
export function text(items: StreamItem[]): string {
  return items.map((item) => (item.type === "stdout" || item.type === "stderr" ? item.data : "")).join("");
}
