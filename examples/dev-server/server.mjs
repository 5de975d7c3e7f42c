// A server as dev servers are: it takes a free port, and has a worker that would outlive it.
import { spawn } from "node:child_process";
import { createServer } from "node:http";

spawn("sleep", ["1000"], { detached: true, stdio: "ignore" }).unref();

const server = createServer((request, response) => response.end("hello from the dev server"));
server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}/`));
