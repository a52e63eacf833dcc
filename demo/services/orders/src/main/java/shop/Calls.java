package shop;

import java.io.FileWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.security.SecureRandom;
import java.time.Instant;
import java.util.HexFormat;
import org.json.JSONObject;

/** The ground truth for tests; see shopkit/calls.py. Off unless SHOP_TRUTH is set. */
final class Calls {
    private static final String SERVICE = System.getenv("SHOP_SERVICE");
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final ThreadLocal<String> SERVING = new ThreadLocal<>();
    private static final Writer FILE = open();

    private Calls() {}

    /** Takes the id of the call that this thread serves from its query string. */
    static void serving(String query) {
        String id = null;
        for (String pair : query == null ? new String[0] : query.split("&")) {
            if (pair.startsWith("call=")) {
                id = pair.substring("call=".length());
            }
        }
        SERVING.set(id);
    }

    /** Adds an id to a call that is about to be made. Closing it records the call. */
    static Call made(String kind, String target) {
        if (FILE == null) {
            return new Call(null, kind, target, 0);
        }
        byte[] id = new byte[8];
        RANDOM.nextBytes(id);
        return new Call(HexFormat.of().formatHex(id), kind, target, now());
    }

    record Call(String id, String kind, String target, long startUnixNano) implements AutoCloseable {
        String inUrl(String path) {
            return id == null ? path : path + (path.contains("?") ? "&" : "?") + "call=" + id;
        }

        String inSql(String sql) {
            return id == null ? sql : sql + " /*call:" + id + "*/";
        }

        @Override
        public void close() {
            if (id == null) {
                return;
            }
            String serving = SERVING.get();
            var record = new JSONObject().put("service", SERVICE)
                .put("serving", serving == null ? JSONObject.NULL : serving)
                .put("made", id).put("kind", kind).put("target", target)
                .put("start_unix_nano", startUnixNano).put("end_unix_nano", now());
            synchronized (FILE) {
                try {
                    FILE.write(record + "\n");
                    FILE.flush();
                } catch (IOException failure) {
                    throw new UncheckedIOException(failure);
                }
            }
        }
    }

    private static long now() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000L + now.getNano();
    }

    private static Writer open() {
        String directory = System.getenv("SHOP_TRUTH");
        if (directory == null || directory.isEmpty()) {
            return null;
        }
        try {
            return new FileWriter(directory + "/" + SERVICE + "-" + ProcessHandle.current().pid() + ".jsonl", true);
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }
}
