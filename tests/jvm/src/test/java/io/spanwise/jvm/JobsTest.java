package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobExecutionContext;
import org.quartz.JobExecutionException;
import org.quartz.Scheduler;
import org.quartz.SchedulerException;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;
import org.quartz.impl.matchers.EverythingMatcher;
import org.quartz.listeners.TriggerListenerSupport;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.scheduling.annotation.ScheduledAnnotationBeanPostProcessor;

/** What a program has scheduled. Each run is a trace. */
class JobsTest {
  private static final Servers SERVERS = new Servers();
  private static String web;

  @BeforeAll
  static void start() throws Exception {
    web = SERVERS.web();
  }

  @AfterAll
  static void stop() throws Exception {
    SERVERS.close();
  }

  private static Receiver.Span job(String name) throws InterruptedException {
    return Receiver.ONE.await(span -> span.component() == 9 && name.equals(span.name()));
  }

  /** Two runs of a job, each with one call, are two traces. */
  private static void check(String name, String target, String path) throws InterruptedException {
    job(name);
    long end = System.nanoTime() + 10_000_000_000L;
    while (Receiver.ONE.all().stream().filter(span -> name.equals(span.name())).count() < 2) {
      assertTrue(System.nanoTime() < end, "one run only");
      Thread.sleep(20);
    }
    var runs = Receiver.ONE.all().stream().filter(span -> name.equals(span.name())).toList();
    assertNotEquals(runs.get(0).trace(), runs.get(1).trace());
    for (var run : runs) {
      assertEquals(0, run.parent());
      assertEquals(target, run.target());
    }
    var first = runs.get(0);
    var call = Receiver.ONE.await(span -> span.parent() == first.id());
    assertEquals(path, call.target());
    assertEquals(first.trace(), call.trace());
  }

  static final class Sweep implements Runnable {
    final CountDownLatch runs = new CountDownLatch(2);

    @Override
    public void run() {
      Servers.call(web + "/sweep");
      runs.countDown();
    }
  }

  static final class Fails implements Runnable {
    @Override
    public void run() {
      throw new IllegalStateException("expected");
    }
  }

  /** Schedules in the course of a request, to which the runs must not belong. */
  @Test
  void runsBelongToNobody() throws Exception {
    ScheduledExecutorService pool = Executors.newScheduledThreadPool(1);
    Sweep sweep = new Sweep();
    CountDownLatch lambdas = new CountDownLatch(2);
    // A job that schedules others is as good as a request.
    pool.scheduleAtFixedRate(new Runnable() {
      private final AtomicInteger times = new AtomicInteger();

      @Override
      public void run() {
        if (times.getAndIncrement() == 0) {
          pool.scheduleAtFixedRate(sweep, 0, 50, TimeUnit.MILLISECONDS);
          pool.scheduleWithFixedDelay(() -> {
            Servers.call(JobsTest.web + "/lambda");
            lambdas.countDown();
          }, 0, 50, TimeUnit.MILLISECONDS);
          pool.scheduleAtFixedRate(new Fails(), 0, 50, TimeUnit.MILLISECONDS);
          // Once is not periodic: it belongs to who scheduled it.
          pool.schedule(() -> Servers.call(JobsTest.web + "/once"), 50, TimeUnit.MILLISECONDS);
        }
      }
    }, 0, 10, TimeUnit.SECONDS);
    assertTrue(sweep.runs.await(10, TimeUnit.SECONDS));
    assertTrue(lambdas.await(10, TimeUnit.SECONDS));
    check("JobsTest$Sweep.run", "io.spanwise.jvm.JobsTest$Sweep.run", "/sweep");
    String lambda = Receiver.ONE.await(span -> "/lambda".equals(span.target())).trace();
    var run = Receiver.ONE.await(span -> span.component() == 9 && span.trace().equals(lambda));
    assertTrue(run.name().endsWith("$lambda.run"), run::toString);
    check(run.name(), run.target(), "/lambda");
    assertEquals("java.lang.IllegalStateException", job("JobsTest$Fails.run").error());
    var scheduler = job("JobsTest$1.run");
    assertEquals(scheduler.id(), Servers.called("/once").parent());
    pool.shutdownNow();
  }

  /** Spring has its own tasks. */
  public static class Tasks {
    static final CountDownLatch RUNS = new CountDownLatch(2);
    static final AtomicInteger CRON = new AtomicInteger();

    @Scheduled(fixedRate = 50)
    public void refresh() {
      Servers.call(web + "/refresh");
      RUNS.countDown();
    }

    @Scheduled(cron = "* * * * * *")
    public void tick() {
      Servers.call(web + "/tick");
      CRON.incrementAndGet();
    }

    @Scheduled(fixedDelay = 50)
    public void breaks() {
      throw new IllegalArgumentException("expected");
    }
  }

  @Test
  void springsJobs() throws Exception {
    try (var context = new AnnotationConfigApplicationContext()) {
      context.register(ScheduledAnnotationBeanPostProcessor.class, Tasks.class);
      context.refresh();
      assertTrue(Tasks.RUNS.await(10, TimeUnit.SECONDS));
      check("JobsTest$Tasks.refresh", "io.spanwise.jvm.JobsTest$Tasks.refresh", "/refresh");
      check("JobsTest$Tasks.tick", "io.spanwise.jvm.JobsTest$Tasks.tick", "/tick");
      var broken = job("JobsTest$Tasks.breaks");
      assertEquals("java.lang.IllegalArgumentException", broken.error());
    }
    // Nothing of Spring itself.
    assertTrue(Receiver.ONE.all().stream()
        .noneMatch(span -> String.valueOf(span.target()).startsWith("org.springframework.")));
  }

  /** Quartz makes its jobs by itself. */
  public static class Invoices implements Job {
    static final CountDownLatch RUNS = new CountDownLatch(2);

    @Override
    public void execute(JobExecutionContext context) {
      Servers.call(web + "/invoices");
      RUNS.countDown();
    }
  }

  public static class Breaks implements Job {
    @Override
    public void execute(JobExecutionContext context) throws JobExecutionException {
      throw new IllegalStateException("expected");
    }
  }

  public static class Vetoed implements Job {
    @Override
    public void execute(JobExecutionContext context) {
      throw new AssertionError("it must not run");
    }
  }

  private static void repeat(Scheduler scheduler, Class<? extends Job> job, int times) throws SchedulerException {
    scheduler.scheduleJob(
        JobBuilder.newJob(job).withIdentity(job.getSimpleName()).build(),
        TriggerBuilder.newTrigger().withIdentity("of " + job.getSimpleName()).startNow()
            .withSchedule(SimpleScheduleBuilder.simpleSchedule()
                .withIntervalInMilliseconds(50).withRepeatCount(times - 1))
            .build());
  }

  @Test
  void quartzsJobs() throws Exception {
    var properties = new java.util.Properties();
    properties.setProperty("org.quartz.scheduler.instanceName", "tested");
    properties.setProperty("org.quartz.scheduler.skipUpdateCheck", "true");
    properties.setProperty("org.quartz.threadPool.class", "org.quartz.simpl.SimpleThreadPool");
    properties.setProperty("org.quartz.threadPool.threadCount", "2");
    Scheduler scheduler = new StdSchedulerFactory(properties).getScheduler();
    CountDownLatch vetoes = new CountDownLatch(1);
    scheduler.getListenerManager().addTriggerListener(new TriggerListenerSupport() {
      @Override
      public String getName() {
        return "objects";
      }

      @Override
      public boolean vetoJobExecution(Trigger trigger, JobExecutionContext context) {
        boolean is = context.getJobDetail().getJobClass() == Vetoed.class;
        if (is) {
          vetoes.countDown();
        }
        return is;
      }
    }, EverythingMatcher.allTriggers());
    scheduler.start();
    try {
      repeat(scheduler, Vetoed.class, 1);
      repeat(scheduler, Breaks.class, 1);
      assertTrue(vetoes.await(10, TimeUnit.SECONDS));
      repeat(scheduler, Invoices.class, 2);
      assertTrue(Invoices.RUNS.await(10, TimeUnit.SECONDS));
      check("JobsTest$Invoices.execute", "io.spanwise.jvm.JobsTest$Invoices.execute", "/invoices");
      var broken = job("JobsTest$Breaks.execute");
      assertTrue(broken.failed());
      assertEquals("java.lang.IllegalStateException", broken.error());
      assertEquals(0, Receiver.ONE.all().stream()
          .filter(span -> String.valueOf(span.name()).startsWith("JobsTest$Vetoed")).count());
    } finally {
      scheduler.shutdown(true);
    }
  }
}
