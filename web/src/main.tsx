import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
// Imported before the pages, because their styles override these.
import "uplot/dist/uPlot.min.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/analysis.css";
import { ApiError } from "./api/client";
import { App } from "./app/App";
import { keepFocus } from "./app/focus";
import { startRouter } from "./app/router";
// Imported after the pages: on paper it overrides their styles.
import "./styles/print.css";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      // A request that the server refused is not sent again.
      retry: (count, error) => count < 2 && !(error instanceof ApiError && error.status >= 400),
      refetchOnWindowFocus: false,
    },
  },
});

startRouter();
const root = document.getElementById("root")!;
keepFocus(root);
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
