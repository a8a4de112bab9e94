// Check a running server with Vercel's AI SDK, through each provider that people point at a local server.
//
// Usage, in a folder with `npm install ai @ai-sdk/openai @ai-sdk/openai-compatible @ai-sdk/anthropic zod`:
//     node check_ai_sdk.mjs http://127.0.0.1:8087

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, streamText, tool } from "ai";
import { z } from "zod";

const url = process.argv[2] ?? "http://127.0.0.1:8087";
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const models = {
  compatible: createOpenAICompatible({
    name: "local",
    baseURL: `${url}/v1`,
    includeUsage: true,
    supportsStructuredOutputs: true,
  })("x"),
  chat: openai.chat("x"),
  responses: openai.responses("x"),
  anthropic: createAnthropic({ baseURL: `${url}/v1`, apiKey: "none" })("x"),
};
const common = { maxOutputTokens: 40, maxRetries: 0 };
const city = z.object({ city: z.string().max(20) });
const tools = { weather: tool({ description: "Look up the weather", inputSchema: city }) };

const checks = {
  text: async (model) => (await generateText({ model, prompt: "Name a color.", ...common })).text.length > 0,
  stream: async (model) => {
    const result = streamText({ model, prompt: "Name a color.", ...common });
    let text = "";
    for await (const part of result.textStream) text += part;
    return text.length > 0 && (await result.usage).inputTokens > 0;
  },
  call: async (model) => {
    const asked = { model, prompt: "Weather in Paris?", tools, toolChoice: "required", ...common };
    return (await generateText(asked)).toolCalls[0]?.toolName === "weather";
  },
  streamedCall: async (model) => {
    const result = streamText({ model, prompt: "Weather in Paris?", tools, toolChoice: "required", ...common });
    for await (const part of result.fullStream) if (part.type === "error") throw part.error;
    return (await result.toolCalls)[0]?.toolName === "weather";
  },
  object: async (model) => {
    const asked = { model, prompt: "Name a city.", schema: city, ...common, maxOutputTokens: 120 };
    return typeof (await generateObject(asked)).object.city === "string";
  },
};

let failed = 0;
let n = 0;
for (const [provider, model] of Object.entries(models)) {
  for (const [name, run] of Object.entries(checks)) {
    n += 1;
    let problem = "";
    try {
      problem = (await run(model)) ? "" : "wrong answer";
    } catch (error) {
      problem = String(error.message ?? error).slice(0, 160);
    }
    failed += problem ? 1 : 0;
    console.log(`${problem ? "FAILED" : "passed"}  ${provider} ${name}  ${problem}`);
  }
}
console.log(`${n - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
