package io.spanwise.helper;

import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/**
 * Makes classes call {@link Handover} where work is handed over. Each change is a call at the
 * beginning or end of a method, or a call around an argument. Nothing is added to a class, so that
 * loaded classes can be changed, too.
 */
final class Rewriter implements ClassFileTransformer {
  private static final String HANDOVER = "io/spanwise/helper/Handover";
  private static final String CONCURRENT = "java/util/concurrent/";
  private static final String RUNNABLE = "Ljava/lang/Runnable;";
  private static final String TASK = "L" + CONCURRENT + "ForkJoinTask;";
  private static final String LIST = "Ljava/util/List;";

  /** The boot loader and this one load the JDK's classes. */
  private static final ClassLoader PLATFORM = ClassLoader.getPlatformClassLoader();

  /** Types that can be handed over. */
  private static final Set<String> FUNCTIONS = Set.of(
      RUNNABLE,
      "L" + CONCURRENT + "Callable;",
      "Ljava/util/function/Supplier;",
      "Ljava/util/function/Function;",
      "Ljava/util/function/BiFunction;",
      "Ljava/util/function/Consumer;",
      "Ljava/util/function/BiConsumer;");

  /** How to change the methods of a class. */
  private interface Change {
    /** The visitor that changes a method; null if it stays unchanged. */
    MethodVisitor of(String name, Type method, boolean isStatic, MethodVisitor next);
  }

  private static final Map<String, Change> CHANGES = Map.ofEntries(
      Map.entry("java/lang/Thread", Rewriter::ofThread),
      Map.entry("java/lang/VirtualThread", constructor("wrapVirtual")),
      Map.entry(CONCURRENT + "ThreadPoolExecutor", Rewriter::ofPool),
      Map.entry("org/apache/tomcat/util/threads/ThreadPoolExecutor", Rewriter::ofPool),
      Map.entry(CONCURRENT + "ScheduledThreadPoolExecutor", Rewriter::ofScheduler),
      Map.entry(CONCURRENT + "FutureTask", constructor("wrap")),
      Map.entry(CONCURRENT + "CompletableFuture", Rewriter::ofFuture),
      Map.entry(CONCURRENT + "CompletableFuture$DelayedExecutor", method("execute", "wrap")),
      Map.entry(CONCURRENT + "ForkJoinPool", Rewriter::ofForkJoinPool),
      Map.entry(CONCURRENT + "ForkJoinTask", Rewriter::ofForkJoinTask),
      Map.entry(CONCURRENT + "ForkJoinTask$AdaptedCallable", constructor("wrap")),
      Map.entry(CONCURRENT + "ForkJoinTask$AdaptedInterruptibleCallable", constructor("wrap")),
      Map.entry(CONCURRENT + "ForkJoinTask$AdaptedRunnable", constructor("wrap")),
      Map.entry(CONCURRENT + "ForkJoinTask$AdaptedRunnableAction", constructor("wrap")),
      Map.entry(CONCURRENT + "ForkJoinTask$AdaptedInterruptibleRunnable", constructor("wrap")),
      Map.entry(CONCURRENT + "ForkJoinTask$RunnableExecuteAction", constructor("wrap")),
      Map.entry(CONCURRENT + "ForkJoinTask$CallableWithTimeout", constructor("wrap")),
      Map.entry(CONCURRENT + "ForkJoinTask$InvokeAnyTask", constructor("wrap")),
      Map.entry("jdk/internal/net/http/Http1Exchange$Http1Publisher", Rewriter::ofHttpPublisher));

  private final Instrumentation instrumentation;
  /** Classes that were changed. */
  private final Set<String> changed = ConcurrentHashMap.newKeySet();

  Rewriter(Instrumentation instrumentation) {
    this.instrumentation = instrumentation;
  }

  /** Loads what the changed classes call before they are changed. */
  static void loadHelpers() throws ClassNotFoundException {
    List<Class<?>> all = new ArrayList<>(List.of(
        Handover.class, Handed.class, Work.class, ThreadState.class, Forked.class, Table.class));
    all.addAll(List.of(Handed.class.getDeclaredClasses()));
    all.addAll(List.of(Forked.class.getDeclaredClasses()));
    all.addAll(List.of(ThreadState.class.getDeclaredClasses()));
    for (Class<?> each : all) {
      Class.forName(each.getName(), true, null);
    }
  }

  void begin() throws Exception {
    instrumentation.addTransformer(this, true);
    // First the class through which threads return their slots.
    instrumentation.retransformClasses(Thread.class);
    if (!changed.contains("java/lang/Thread")) {
      instrumentation.removeTransformer(this);
      throw new IllegalStateException("the ends of threads cannot be seen");
    }
    for (Class<?> each : instrumentation.getAllLoadedClasses()) {
      if (each != Thread.class && CHANGES.containsKey(each.getName().replace('.', '/'))) {
        try {
          instrumentation.retransformClasses(each);
        } catch (Throwable failure) {
          Helper.say(each.getName() + " is left as it is: " + failure);
        }
      }
    }
  }

  void end() throws Exception {
    instrumentation.removeTransformer(this);
    for (Class<?> each : instrumentation.getAllLoadedClasses()) {
      if (changed.contains(each.getName().replace('.', '/'))) {
        instrumentation.retransformClasses(each);
      }
    }
  }

  @Override
  public byte[] transform(
      ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] bytes) {
    Change change = name == null ? null : CHANGES.get(name);
    if (change == null || !isOf(loader, name)) {
      return null;
    }
    try {
      byte[] rewritten = rewrite(bytes, change);
      changed.add(name);
      return rewritten;
    } catch (Throwable failure) {
      Helper.say(name + " is left as it is: " + failure);
      return null;
    }
  }

  /** Whether a loader is the one expected for such a class, and can find the helper's classes. */
  private static boolean isOf(ClassLoader loader, String name) {
    if (loader == null || loader == PLATFORM) {
      return true;
    }
    if (name.startsWith("java/") || name.startsWith("jdk/")) {
      return false;
    }
    try {
      return Class.forName(Handover.class.getName(), false, loader) == Handover.class;
    } catch (ClassNotFoundException | LinkageError hidden) {
      Helper.say(name + " is left as it is: its loader does not find the helper");
      return false;
    }
  }

  private static byte[] rewrite(byte[] bytes, Change change) {
    ClassReader reader = new ClassReader(bytes);
    ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
    reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
      @Override
      public MethodVisitor visitMethod(
          int access, String name, String type, String generic, String[] thrown) {
        MethodVisitor next = super.visitMethod(access, name, type, generic, thrown);
        boolean isStatic = (access & Opcodes.ACC_STATIC) != 0;
        boolean hasCode = (access & (Opcodes.ACC_ABSTRACT | Opcodes.ACC_NATIVE)) == 0;
        MethodVisitor with = hasCode ? change.of(name, Type.getMethodType(type), isStatic, next) : null;
        return with == null ? next : with;
      }
    }, 0);
    return writer.toByteArray();
  }

  private static Change constructor(String wrap) {
    return method("<init>", wrap);
  }

  private static Change method(String wanted, String wrap) {
    return (name, type, isStatic, next) -> name.equals(wanted) ? wrapping(wrap, type, isStatic, next) : null;
  }

  private static MethodVisitor ofThread(String name, Type type, boolean isStatic, MethodVisitor next) {
    if (name.equals("exit") && type.getDescriptor().equals("()V")) {
      return new MethodVisitor(Opcodes.ASM9, next) {
        @Override
        public void visitCode() {
          super.visitCode();
          call(this, "threadEnds", "()V");
        }
      };
    }
    return name.equals("<init>") ? wrapping("wrapStarted", type, isStatic, next) : null;
  }

  private static MethodVisitor ofFuture(String name, Type type, boolean isStatic, MethodVisitor next) {
    boolean registers = name.endsWith("Stage") || name.equals("completeAsync");
    return registers ? wrapping("wrap", type, isStatic, next) : null;
  }

  private static MethodVisitor ofScheduler(String name, Type type, boolean isStatic, MethodVisitor next) {
    boolean periodic = name.equals("scheduleAtFixedRate") || name.equals("scheduleWithFixedDelay");
    return periodic ? wrapping("wrapPeriodic", type, isStatic, next) : null;
  }

  private static MethodVisitor ofForkJoinPool(String name, Type type, boolean isStatic, MethodVisitor next) {
    switch (name) {
      case "scheduleAtFixedRate":
      case "scheduleWithFixedDelay":
        return wrapping("wrapPeriodic", type, isStatic, next);
      case "schedule":
        return wrapping("wrap", type, isStatic, next);
      case "execute":
      case "submit":
      case "invoke":
        Type[] arguments = type.getArgumentTypes();
        boolean isTask = arguments.length > 0 && arguments[0].getDescriptor().equals(TASK);
        return isTask ? first(next, 1, "fork") : null;
      default:
        return null;
    }
  }

  private static MethodVisitor ofForkJoinTask(String name, Type type, boolean isStatic, MethodVisitor next) {
    if (name.equals("fork") && type.getArgumentTypes().length == 0) {
      return first(next, 0, "fork");
    }
    if (!name.equals("doExec")) {
      return null;
    }
    return new MethodVisitor(Opcodes.ASM9, first(next, 0, "begins")) {
      @Override
      public void visitInsn(int code) {
        if (code == Opcodes.IRETURN || code == Opcodes.RETURN) {
          super.visitVarInsn(Opcodes.ALOAD, 0);
          call(this, "ends", "(" + TASK + ")V");
        }
        super.visitInsn(code);
      }
    };
  }

  /**
   * The JDK's HTTP client writes a request on any thread for which its connection is ready. The
   * writing task belongs to one request, and is created while that is being sent.
   */
  private static MethodVisitor ofHttpPublisher(String name, Type type, boolean isStatic, MethodVisitor next) {
    return new MethodVisitor(Opcodes.ASM9, next) {
      @Override
      public void visitMethodInsn(int code, String owner, String called, String type, boolean isInterface) {
        if (owner.endsWith("/SequentialScheduler") && type.startsWith("(" + RUNNABLE + ")")) {
          call(this, "wrap", "(" + RUNNABLE + ")" + RUNNABLE);
        }
        super.visitMethodInsn(code, owner, called, type, isInterface);
      }
    };
  }

  /** If the pool exposes a task, it must expose the program's original one. */
  private static MethodVisitor ofPool(String name, Type type, boolean isStatic, MethodVisitor next) {
    switch (name) {
      case "execute":
        return wrapping("wrapQueued", type, isStatic, next);
      case "remove":
        return new MethodVisitor(Opcodes.ASM9, next) {
          @Override
          public void visitCode() {
            super.visitCode();
            super.visitVarInsn(Opcodes.ALOAD, 0);
            super.visitVarInsn(Opcodes.ALOAD, 1);
            call(this, "queued", "(Ljava/lang/Object;" + RUNNABLE + ")" + RUNNABLE);
            super.visitVarInsn(Opcodes.ASTORE, 1);
          }
        };
      case "drainQueue":
        return new MethodVisitor(Opcodes.ASM9, next) {
          @Override
          public void visitInsn(int code) {
            if (code == Opcodes.ARETURN) {
              call(this, "unwrap", "(" + LIST + ")" + LIST);
            }
            super.visitInsn(code);
          }
        };
      case "reject":
        return new MethodVisitor(Opcodes.ASM9, next) {
          @Override
          public void visitCode() {
            super.visitCode();
            super.visitVarInsn(Opcodes.ALOAD, 1);
            call(this, "unwrap", "(" + RUNNABLE + ")" + RUNNABLE);
            super.visitVarInsn(Opcodes.ASTORE, 1);
          }
        };
      case "runWorker":
        return new MethodVisitor(Opcodes.ASM9, next) {
          @Override
          public void visitMethodInsn(int code, String owner, String called, String type, boolean isInterface) {
            if (called.equals("beforeExecute")) {
              call(this, "unwrap", "(" + RUNNABLE + ")" + RUNNABLE);
            } else if (called.equals("afterExecute")) {
              super.visitInsn(Opcodes.SWAP);
              call(this, "unwrap", "(" + RUNNABLE + ")" + RUNNABLE);
              super.visitInsn(Opcodes.SWAP);
            }
            super.visitMethodInsn(code, owner, called, type, isInterface);
          }
        };
      default:
        return null;
    }
  }

  /** Calls a method with the argument in this place, before anything else. */
  private static MethodVisitor first(MethodVisitor next, int place, String name) {
    return new MethodVisitor(Opcodes.ASM9, next) {
      @Override
      public void visitCode() {
        super.visitCode();
        super.visitVarInsn(Opcodes.ALOAD, place);
        call(this, name, "(" + TASK + ")V");
      }
    };
  }

  /** Wraps every argument that is a function. */
  private static MethodVisitor wrapping(String wrap, Type method, boolean isStatic, MethodVisitor next) {
    return new MethodVisitor(Opcodes.ASM9, next) {
      @Override
      public void visitCode() {
        super.visitCode();
        int place = isStatic ? 0 : 1;
        for (Type argument : method.getArgumentTypes()) {
          String type = argument.getDescriptor();
          if (wrap.equals("wrap") ? FUNCTIONS.contains(type) : type.equals(RUNNABLE)) {
            super.visitVarInsn(Opcodes.ALOAD, place);
            call(this, wrap, "(" + type + ")" + type);
            super.visitVarInsn(Opcodes.ASTORE, place);
          }
          place += argument.getSize();
        }
      }
    };
  }

  private static void call(MethodVisitor visitor, String name, String type) {
    visitor.visitMethodInsn(Opcodes.INVOKESTATIC, HANDOVER, name, type, false);
  }
}
