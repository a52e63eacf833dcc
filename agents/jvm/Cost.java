import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.IntStream;

/**
 * Measures the cost of a hand-over in wall-clock nanoseconds: `java Cost.java`, and again with the
 * helper (`java -javaagent:spanwise-java-helper.jar Cost.java`). The difference is the helper's
 * cost.
 */
public class Cost {
    static final int TIMES = 300_000;
    static final int ROUNDS = 15;

    interface Round {
        void run() throws Exception;
    }

    static void measure(String what, int times, Round round) throws Exception {
        double best = Double.MAX_VALUE;
        for (int number = 0; number < ROUNDS; number++) {
            long begin = System.nanoTime();
            round.run();
            best = Math.min(best, (double) (System.nanoTime() - begin) / times);
        }
        System.out.printf("%s: %.0f ns%n", what, best);
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(1);
        Executor here = Runnable::run;
        measure("a stage of a future, on the thread that completes it", TIMES, () -> {
            CompletableFuture<Integer> first = new CompletableFuture<>();
            CompletableFuture<Integer> last = first;
            for (int number = 0; number < TIMES; number++) {
                last = last.thenApply(value -> value + 1);
                if (number % 100 == 99) {
                    first.complete(0);
                    last.join();
                    last = first = new CompletableFuture<>();
                }
            }
        });
        measure("a task of a pool", TIMES, () -> {
            CountDownLatch done = new CountDownLatch(TIMES);
            for (int number = 0; number < TIMES; number++) {
                pool.execute(done::countDown);
            }
            done.await();
        });
        measure("a task of a pool, with a future", TIMES, () -> {
            for (int number = 0; number < TIMES - 1; number++) {
                pool.submit(() -> 1);
            }
            pool.submit(() -> 1).get();
        });
        measure("a parallel stream of 1000", TIMES / 100, () -> {
            for (int number = 0; number < TIMES / 100; number++) {
                IntStream.range(0, 1000).parallel().map(each -> each + 1).sum();
            }
        });
        measure("a thread", TIMES / 100, () -> {
            for (int number = 0; number < TIMES / 100; number++) {
                Thread thread = new Thread(() -> {});
                thread.start();
                thread.join();
            }
        });
        pool.shutdown();
    }
}
