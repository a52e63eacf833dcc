package io.spanwise.jvm;

import static net.bytebuddy.matcher.ElementMatchers.none;

import io.spanwise.boot.Log;
import io.spanwise.boot.Trace;
import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.agent.builder.ResettableClassFileTransformer;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.dynamic.DynamicType;
import net.bytebuddy.implementation.bytecode.assign.Assigner;
import net.bytebuddy.implementation.bytecode.member.MethodInvocation;
import net.bytebuddy.matcher.ElementMatchers;
import net.bytebuddy.utility.JavaModule;

/** Weaves the hooks. A hook that does not fit is said and left out; the class stays as it was. */
final class Weaver {
  private final Instrumentation instrumentation;
  /** Whether a loader finds the primitives. Some (OSGi) hide them. */
  private final Map<ClassLoader, Boolean> sees = new WeakHashMap<>();

  private ClassFileLocator advices;
  private ResettableClassFileTransformer woven;

  Weaver(Instrumentation instrumentation) {
    this.instrumentation = instrumentation;
  }

  void begin() throws Exception {
    // Newer Java warns of what the library would otherwise use.
    System.setProperty("net.bytebuddy.safe", "true");
    Advice.ExceptionHandler failures = new Advice.ExceptionHandler.Simple(
        MethodInvocation.invoke(new MethodDescription.ForLoadedMethod(
            Log.class.getMethod("failed", Throwable.class))));
    AgentBuilder builder = new AgentBuilder.Default()
        .disableClassFormatChanges()
        .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
        .with(AgentBuilder.RedefinitionStrategy.BatchAllocator.ForFixedSize.ofSize(16))
        .with(AgentBuilder.DescriptionStrategy.Default.POOL_ONLY)
        .with(AgentBuilder.PoolStrategy.Default.FAST)
        .with(AgentBuilder.InjectionStrategy.Disabled.INSTANCE)
        .with(new Told())
        .ignore(none());
    List<Hook> hooks = Table.hooks();
    advices = advices(hooks);
    for (Hook hook : hooks) {
      builder = builder
          .type((type, loader, module, loaded, domain) -> hook.type.matches(type) && canSee(loader, type))
          .transform((made, type, loader, module, domain) -> weave(hook, failures, made, type, loader, module, domain));
    }
    woven = builder.installOn(instrumentation);
    if (!Probe.isWoven()) {
      Log.say("weaving does not work in this virtual machine: no spans will come");
    }
  }

  /**
   * The advices and their annotations as they are in the agent's jar. They are read now, because
   * whoever brought the jar may remove it.
   */
  private static ClassFileLocator advices(List<Hook> hooks) throws IOException {
    ClassFileLocator jar = ClassFileLocator.ForClassLoader.of(Weaver.class.getClassLoader());
    Map<String, byte[]> known = new HashMap<>();
    for (Hook hook : hooks) {
      if (!known.containsKey(hook.advice)) {
        known.put(hook.advice, jar.locate(hook.advice).resolve());
      }
    }
    for (Class<?> each : Advice.class.getDeclaredClasses()) {
      known.put(each.getName(), jar.locate(each.getName()).resolve());
    }
    String typing = Assigner.Typing.class.getName();
    known.put(typing, jar.locate(typing).resolve());
    return new ClassFileLocator.Simple(known);
  }

  /** All classes get their own code back. Methods that run finish as they began. */
  void end() {
    boolean isReset = woven.reset(
        instrumentation,
        AgentBuilder.RedefinitionStrategy.RETRANSFORMATION,
        AgentBuilder.RedefinitionStrategy.BatchAllocator.ForFixedSize.ofSize(16));
    if (!isReset) {
      throw new IllegalStateException("the hooks are removed already");
    }
  }

  private DynamicType.Builder<?> weave(
      Hook hook,
      Advice.ExceptionHandler failures,
      DynamicType.Builder<?> made,
      TypeDescription type,
      ClassLoader loader,
      JavaModule module,
      ProtectionDomain domain) {
    boolean fits = !type.getDeclaredMethods()
        .filter(ElementMatchers.<MethodDescription>isMethod().or(ElementMatchers.<MethodDescription>isConstructor())
            .and(hook.method))
        .isEmpty();
    if (!fits) {
      if (!hook.name.endsWith("?")) {
        Log.say("the hook " + hook.name + " finds no method in " + type.getName());
      }
      return made;
    }
    return new AgentBuilder.Transformer.ForAdvice()
        .include(advices)
        .withExceptionHandler(failures)
        .advice(hook.method, hook.advice)
        .transform(made, type, loader, module, domain);
  }

  private boolean canSee(ClassLoader loader, TypeDescription type) {
    if (loader == null) {
      return true;
    }
    synchronized (sees) {
      Boolean known = sees.get(loader);
      if (known == null) {
        try {
          known = Class.forName(Trace.class.getName(), false, loader) == Trace.class;
        } catch (ClassNotFoundException | LinkageError hidden) {
          known = false;
        }
        if (!known) {
          Log.say("the loader of " + type.getName() + " does not find the agent, so its classes stay as they are");
        }
        sees.put(loader, known);
      }
      return known;
    }
  }

  /** Says what could not be woven. */
  private static final class Told extends AgentBuilder.Listener.Adapter {
    @Override
    public void onError(
        String type, ClassLoader loader, JavaModule module, boolean loaded, Throwable failure) {
      Log.say(type + " is left as it is: " + failure);
    }
  }
}
