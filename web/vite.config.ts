/// <reference types="vitest/config" />
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The API for `npm run dev`: the program itself, or the fixture server.
const api = process.env["SPANWISE_API"] ?? "http://127.0.0.1:7070";

export default defineConfig({
  plugins: [react()],
  server: {
    host: "127.0.0.1",
    port: 5173,
    proxy: { "/api": api, "/tempo": api, "/jaeger": api, "/zipkin": api },
  },
  build: { target: "es2022", sourcemap: false, chunkSizeWarningLimit: 900 },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
