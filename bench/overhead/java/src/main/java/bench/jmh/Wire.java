package bench.jmh;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Locale;

/**
 * A client that stands for one on another host: one connection that is kept, plain sockets, nothing that a tracer would
 * instrument. So what is measured is the server's side alone.
 */
final class Wire implements AutoCloseable {
    private static final int MOST_BYTES = 64 * 1024;
    private static final String END_OF_HEAD = "\r\n\r\n";
    private static final String END_OF_CHUNKS = "\r\n0\r\n\r\n";

    private final Socket socket;
    private final byte[] request;
    private final byte[] answer = new byte[MOST_BYTES];

    Wire(int port, String path) throws IOException {
        socket = new Socket("127.0.0.1", port);
        socket.setTcpNoDelay(true);
        request = ("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n").getBytes(StandardCharsets.ISO_8859_1);
    }

    /** Sends the request and reads the whole answer: its bytes. Anything but 200 is an error. */
    int get() throws IOException {
        socket.getOutputStream().write(request);
        InputStream in = socket.getInputStream();
        int length = 0;
        while (true) {
            int read = in.read(answer, length, answer.length - length);
            if (read <= 0) {
                throw new EOFException("the server ended the connection, or its answer is too long");
            }
            length += read;
            if (whole(length)) {
                return length;
            }
        }
    }

    private boolean whole(int length) throws IOException {
        String text = new String(answer, 0, length, StandardCharsets.ISO_8859_1);
        int head = text.indexOf(END_OF_HEAD);
        if (head < 0) {
            return false;
        }
        if (!text.startsWith("HTTP/1.1 200")) {
            throw new IOException("the server answered " + text.substring(0, text.indexOf('\r')));
        }
        String fields = text.substring(0, head).toLowerCase(Locale.ROOT);
        int at = fields.indexOf("\r\ncontent-length:");
        if (at < 0) {
            return text.endsWith(END_OF_CHUNKS);
        }
        int end = fields.indexOf('\r', at + 2);
        String value = fields.substring(fields.indexOf(':', at) + 1, end < 0 ? fields.length() : end);
        return length == head + END_OF_HEAD.length() + Integer.parseInt(value.trim());
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
