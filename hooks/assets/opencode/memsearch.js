// memsearch in OpenCode: a turn that ended is noted, a session begins with the recent notes,
// and the model gets the three memory tools.

import { HINT, connect, switchedOff, tools } from "../memsearch/bridge.js"

const LAUNCHER = @LAUNCHER_JSON@
/** Milliseconds within which two events tell of the same end. */
const SAME_MS = 1_000
/** Sessions whose context is remembered; a server lives for weeks. */
const MAX_SESSIONS = 200

/** How the prompt of OpenCode's own title writer begins; it needs no memory. */
const TITLES = "You are a title generator"

/**
 * A schema for one argument that needs no package: what OpenCode asks of one of Zod's (4.x),
 * https://zod.dev/packages/core. Releases to 1.14 fail at every turn on anything else.
 */
function bare({ type, description }, required) {
  const kind = type === "integer" ? "number" : type
  const how = required ? undefined : "optional"
  const def = { type: kind }
  const json = { type, ...(description ? { description } : {}) }
  const run = (payload) => payload // memsearch itself looks at what it is given
  const traits = new Set(["$ZodType"])
  const zod = { def, run, traits, optin: how, optout: how, bag: {}, toJSONSchema: () => ({ ...json }) }
  return { _zod: zod, _def: def, def, type: kind }
}

async function schema(parameters) {
  // OpenCode fetches its schema builder when it starts: offline, or for another reason, it is
  // not there.
  let build
  try {
    build = (await import("@opencode-ai/plugin")).tool.schema
  } catch {
    build = undefined
  }
  const found = {}
  for (const [name, given] of Object.entries(parameters.properties)) {
    const required = parameters.required.includes(name)
    if (!build) {
      found[name] = bare(given, required)
      continue
    }
    const kinds = { string: build.string, integer: build.number, boolean: build.boolean }
    let type = kinds[given.type]()
    if (given.description) type = type.describe(given.description)
    found[name] = required ? type : type.optional()
  }
  return found
}

export const MemSearch = async ({ client, directory }) => {
  if (switchedOff()) return {}
  const tell = (message) =>
    client.app
      .log({ body: { service: "memsearch", level: "warn", message } })
      .catch(() => console.error(message))
  const memsearch = connect(LAUNCHER, "opencode", tell)
  const contexts = new Map()
  const ended = new Map()
  const children = new Set()
  /** Session → the id of the user's last message, which is the turn's. */
  const turns = new Map()

  function keep(map, session, value) {
    if (map.size >= MAX_SESSIONS && !map.has(session)) map.delete(map.keys().next().value)
    map.set(session, value)
  }

  function contextOf(session) {
    if (!contexts.has(session)) {
      const payload = { session_id: session, cwd: directory, hook_event_name: "SessionStart" }
      keep(contexts, session, memsearch.context(payload))
    }
    return contexts.get(session)
  }

  async function end(session, event) {
    const now = Date.now()
    const turn_id = turns.get(session)
    const before = ended.get(session)
    const same = before?.turn_id === turn_id && now - before.now < SAME_MS
    if (!session || children.has(session) || same) return
    keep(ended, session, { turn_id, now })
    const payload = { session_id: session, turn_id, cwd: directory, hook_event_name: event }
    await memsearch.enqueue(payload)
  }

  const offered = {}
  for (const [name, { description, parameters }] of Object.entries(tools)) {
    offered[name] = {
      description,
      args: await schema(parameters),
      execute: (args, context) => memsearch.call(name, args, context?.directory ?? directory),
    }
  }

  return {
    tool: offered,

    event: async ({ event }) => {
      const about = event.properties ?? {}
      if (event.type === "session.created" && about.info?.parentID) children.add(about.info.id)
      else if (event.type === "session.compacted") contexts.delete(about.sessionID)
      else if (event.type === "session.idle") await end(about.sessionID, event.type)
      else if (event.type === "session.status" && about.status?.type === "idle")
        await end(about.sessionID, "session.idle")
    },

    "chat.message": async (input, output) => {
      const session = input.sessionID
      const first = !turns.has(session)
      const turn_id = output.message?.id ?? input.messageID
      keep(turns, session, turn_id)
      if (first && !children.has(session)) {
        // Turns that were missed are caught up, and memsearch knows since when it is here.
        const hook_event_name = "SessionStart"
        const event = { session_id: session, turn_id, cwd: directory, hook_event_name }
        memsearch.enqueue(event)
      }
    },

    "experimental.chat.system.transform": async (input, output) => {
      if (!input.sessionID || output.system.some((part) => part.startsWith(TITLES))) return
      // The same words at each step of a session, so that the provider's cache holds.
      const notes = await contextOf(input.sessionID)
      if (notes) output.system.push(`${notes}\n\n${HINT}`)
    },
  }
}
