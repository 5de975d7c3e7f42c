// Starts a server, waits until it is ready, uses it, and stops it with everything that it started.
import { connect } from "@trl-dev/trl";

async function get(url: string): Promise<string> {
  try {
    return await (await fetch(url)).text();
  } catch {
    return "refused";
  }
}

await using trl = await connect();
await using session = await trl.session({ workingDir: process.cwd(), env: { PATH: process.env["PATH"] ?? "" } });
const server = await session.start("node server.mjs");

const ready = await server.wait({ outputMatch: "listening on (.*)", timeoutS: 30 });
const url = ready?.match?.text.replace("listening on ", "");
if (url === undefined) throw new Error(`the server is not ready: ${(await server.output()).data}`);
console.log(`ready: ${url}`);
console.log(`GET /: ${await get(url)}`);

const ended = await server.cancel();
const stopped = (ended.outcome?.killed ?? []).map((process) => process.command);
console.log(`stopped: ${stopped.sort().join(", ")}`);
console.log(`GET /: ${await get(url)}`);
