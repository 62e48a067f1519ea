// One request to OpenClaw's gateway: gateway_rpc.mjs URL TOKEN METHOD PARAMETERS

const [url, token, method, parameters] = process.argv.slice(2)
const socket = new WebSocket(url)
const waiting = new Map()

function ask(name, params) {
  return new Promise((resolve, reject) => {
    const id = String(waiting.size + 1)
    waiting.set(id, { resolve, reject })
    socket.send(JSON.stringify({ type: "req", id, method: name, params }))
  })
}

async function run() {
  await ask("connect", {
    minProtocol: 1,
    maxProtocol: 9,
    client: { id: "gateway-client", version: "1.0.0", platform: "linux", mode: "backend" },
    role: "operator",
    scopes: ["operator.admin", "operator.read", "operator.write"],
    caps: [],
    commands: [],
    permissions: {},
    auth: { token },
    locale: "en-US",
    userAgent: "tests/1",
  })
  process.stdout.write(JSON.stringify(await ask(method, JSON.parse(parameters))))
}

socket.onmessage = ({ data }) => {
  const message = JSON.parse(data)
  if (message.type === "event" && message.event === "connect.challenge") {
    run().then(
      () => process.exit(0),
      (error) => {
        console.error(JSON.stringify(error))
        process.exit(1)
      },
    )
  } else if (message.type === "res") {
    const { resolve, reject } = waiting.get(message.id)
    message.ok ? resolve(message.payload) : reject(message.error)
  }
}
socket.onerror = (error) => {
  console.error(error.message)
  process.exit(1)
}
