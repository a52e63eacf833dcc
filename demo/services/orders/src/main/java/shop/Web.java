package shop;

import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import org.json.JSONObject;

/** Calls one service. HttpURLConnection keeps idle connections itself. */
record Web(String address) {
    record Reply(int status, JSONObject value) {}

    Reply call(String method, String path, JSONObject body) throws IOException {
        try (Calls.Call call = Calls.made("http", method + " " + address + path)) {
            var connection = (HttpURLConnection) URI.create("http://" + address + call.inUrl(path)).toURL().openConnection();
            connection.setRequestMethod(method);
            connection.setConnectTimeout(5_000);
            connection.setReadTimeout(10_000);
            if (body != null) {
                byte[] data = body.toString().getBytes(StandardCharsets.UTF_8);
                connection.setDoOutput(true);
                connection.setRequestProperty("Content-Type", "application/json");
                connection.setFixedLengthStreamingMode(data.length);
                connection.getOutputStream().write(data);
            }
            int status = connection.getResponseCode();
            try (InputStream stream = status < 400 ? connection.getInputStream() : connection.getErrorStream()) {
                byte[] data = stream == null ? new byte[0] : stream.readAllBytes();
                String text = new String(data, StandardCharsets.UTF_8);
                return new Reply(status, text.startsWith("{") ? new JSONObject(text) : new JSONObject());
            }
        }
    }
}
