package clients;

/**
 * Sends the known tree with one of Java's clients: Tree CLIENT SERVICE ENDPOINT. Prints the
 * trace's id.
 */
public final class Tree {
    private Tree() {}

    public static void main(String[] arguments) throws Exception {
        String client = arguments[0];
        String service = arguments[1];
        String endpoint = arguments[2];
        String id = switch (client) {
            case "brave" -> BraveTree.send(service, endpoint);
            case "otlp-grpc", "otlp-http", "zipkin-json" -> OpenTelemetryTree.send(client, service, endpoint);
            case "jaeger-http", "jaeger-udp" -> JaegerTree.send(client, service, endpoint);
            default -> throw new IllegalArgumentException("no client " + client);
        };
        System.out.println("0".repeat(32 - id.length()) + id);
        System.exit(0);
    }
}
