package bench.jmh;

/** Plain Java: a span around a concatenation, the worst case of all, since the work is as short as the span. */
public class StringConcatenation extends Scenario {
    public String first = "SimpleJava";
    public String second = "Concatenation";
    public int number = 41;

    @Override
    void build() {}

    @Override
    void tearDown() {}

    @Override
    Object work() throws Exception {
        return tracing.span("concatenate", () -> first + '-' + second + '-' + number);
    }
}
