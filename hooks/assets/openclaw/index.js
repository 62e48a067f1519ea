// memsearch in OpenClaw: a turn that ended is noted, a session begins with the recent notes,
// and the model gets the three memory tools.

import { HINT, connect, switchedOff, tools } from "./bridge.js"

const LAUNCHER = @LAUNCHER_JSON@
/** Sessions that are remembered; a gateway lives for weeks. */
const MAX_SESSIONS = 200

// OpenClaw registers a plugin several times in one process: what is known of the sessions is
// kept outside.
const state = (globalThis[Symbol.for("memsearch.openclaw")] ??= { contexts: new Map() })

/** The text of the agent's last message. The history is whole: only its end is looked at. */
function lastMessage(messages) {
  for (let at = (messages?.length ?? 0) - 1; at >= 0; at--) {
    const message = messages[at]
    if (message?.role === "user") return undefined
    if (message?.role !== "assistant") continue
    if (typeof message.content === "string") return message.content
    const texts = (message.content ?? []).filter((part) => part?.type === "text")
    if (texts.length) return texts.map((part) => part.text).join("\n")
  }
  return undefined
}

function payload(context, event) {
  return {
    session_id: context?.sessionId ?? context?.sessionKey,
    // A turn has no other name here: its answers carry the run's.
    turn_id: context?.runId,
    agent_id: context?.agentId,
    cwd: context?.workspaceDir,
    hook_event_name: event,
  }
}

export default {
  id: "memsearch",
  name: "memsearch",
  description: "Remembers what was done, whichever agent did it, and finds it again.",

  register(api) {
    if (switchedOff()) return
    const tell = (words) => (api.logger?.warn ? api.logger.warn(words) : console.error(words))
    const memsearch = connect(LAUNCHER, "openclaw", tell)

    api.on("before_prompt_build", async (_event, context) => {
      const session = context?.sessionId ?? context?.sessionKey
      if (!session) return undefined
      if (!state.contexts.has(session)) {
        if (state.contexts.size >= MAX_SESSIONS)
          state.contexts.delete(state.contexts.keys().next().value)
        const start = payload(context, "SessionStart")
        // The same words at each turn of a session, so that the provider's cache holds.
        state.contexts.set(session, memsearch.context(start))
        // Turns that were missed are caught up, and memsearch knows since when it is here.
        await memsearch.enqueue(start)
      }
      const notes = await state.contexts.get(session)
      return notes ? { appendSystemContext: `${notes}\n\n${HINT}` } : undefined
    })

    api.on("agent_end", async (event, context) => {
      const ended = payload(context, "agent_end")
      ended.turn_id = event?.runId ?? ended.turn_id
      if (!ended.session_id) return
      ended.last_assistant_message = event?.success === false ? undefined : lastMessage(event?.messages)
      await memsearch.enqueue(ended)
    })

    for (const name of ["after_compaction", "before_reset"]) {
      api.on(name, async (_event, context) => {
        state.contexts.delete(context?.sessionId ?? context?.sessionKey)
      })
    }

    for (const [name, { description, parameters }] of Object.entries(tools)) {
      const make = (context) => ({
        name,
        label: name,
        description,
        parameters,
        async execute(_id, given) {
          const text = await memsearch.call(name, given, context?.workspaceDir)
          return { content: [{ type: "text", text }] }
        },
      })
      api.registerTool(make, { name })
    }
  },
}
