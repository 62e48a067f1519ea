// What the plugins of OpenCode and OpenClaw share: running memsearch, and its three tools.
//
// memsearch is run with a list of arguments, what it needs to know goes to its standard input
// as JSON, and no shell is anywhere. Whatever fails here is told and never breaks the agent.

import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"

/** Milliseconds that an agent waits for its context; it starts without it then. */
const CONTEXT_MS = 5_000
/** Milliseconds that a tool may take: a first search loads a model. */
const TOOL_MS = 120_000
/** Milliseconds that a hook may take. */
const ENQUEUE_MS = 10_000
/** Bytes of an answer that are kept. */
const MAX_BYTES = 4_000_000

/** Name → { description, parameters }, the parameters as JSON schema. */
export const tools = JSON.parse(readFileSync(new URL("./tools.json", import.meta.url), "utf8"))

/** The line that tells a model that there is a memory to search. */
export const HINT = "[memsearch] Memory available"

/** Whether memsearch has nothing to do here: its own summariser runs, or the user said no. */
export function switchedOff() {
  return Boolean(process.env.MEMSEARCH_INTERNAL || process.env.MEMSEARCH_DISABLE)
}

/**
 * Ways to memsearch for one agent.
 *
 * @param {string} launcher  Path of the script that finds memsearch.
 * @param {string} platform  The agent's name.
 * @param {(words: string) => void} tell  Where faults are said.
 */
export function connect(launcher, platform, tell) {
  function run(args, input, { timeout, detached = false }) {
    return new Promise((resolve) => {
      const chunks = []
      let size = 0
      let errors = ""
      let child
      const end = (code, why) => {
        clearTimeout(timer)
        resolve({ code, text: Buffer.concat(chunks).toString("utf8"), why: why || errors.trim() })
      }
      const timer = setTimeout(() => {
        child?.kill("SIGKILL")
        end(-1, `no answer within ${timeout} ms`)
      }, timeout)
      timer.unref?.()
      try {
        // Detached: an agent that ends at once (one that was run for one question) does not
        // take its child with it.
        child = spawn(launcher, args, { stdio: ["pipe", "pipe", "pipe"], detached, cwd: "/" })
      } catch (error) {
        end(-1, String(error))
        return
      }
      child.on("error", (error) => end(-1, String(error)))
      child.stdout.on("data", (chunk) => {
        size += chunk.length
        if (size <= MAX_BYTES) chunks.push(chunk)
      })
      child.stderr.on("data", (chunk) => {
        if (errors.length < 2_000) errors += chunk
      })
      child.on("close", (code) => end(code))
      child.stdin.on("error", () => {}) // it ended without reading; its exit code says why
      child.stdin.end(JSON.stringify(input))
    })
  }

  return {
    /** Take note that a turn has ended. */
    async enqueue(payload) {
      const args = ["enqueue", "--platform", platform]
      const done = await run(args, payload, { timeout: ENQUEUE_MS, detached: true })
      if (done.code !== 0 || done.why) tell(`memsearch enqueue: ${done.why || done.code}`)
    },

    /** The recent notes of a project, fenced; empty when there are none. */
    async context(payload) {
      const args = ["context", "--platform", platform, "--format", "text"]
      const done = await run(args, payload, { timeout: CONTEXT_MS })
      if (done.why) tell(`memsearch context: ${done.why}`)
      return done.code === 0 ? done.text.trim() : ""
    },

    /** What a tool answers, an error in words too. */
    async call(name, args, cwd) {
      const given = { cwd, arguments: args ?? {} }
      const done = await run(["tool", name], given, { timeout: TOOL_MS })
      return done.text.trim() || `error: memsearch does not answer (${done.why || done.code})`
    },
  }
}
