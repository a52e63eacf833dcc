package io.spanwise.boot;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;

/** Reads a fact from an object of a library, whose types this loader does not have. */
final class Getter extends ClassValue<MethodHandle> {
  private static final MethodType SHAPE = MethodType.methodType(Object.class, Object.class);
  private static final MethodHandle NONE =
      MethodHandles.dropArguments(MethodHandles.constant(Object.class, null), 0, Object.class);

  private final String name;

  Getter(String name) {
    this.name = name;
  }

  @Override
  protected MethodHandle computeValue(Class<?> type) {
    MethodHandle found = find(type);
    return found == null ? NONE : found;
  }

  /** The method as some public type has it. */
  private MethodHandle find(Class<?> type) {
    for (Class<?> each = type; each != null; each = each.getSuperclass()) {
      MethodHandle found = of(each);
      if (found != null) {
        return found;
      }
      for (Class<?> implemented : each.getInterfaces()) {
        found = find(implemented);
        if (found != null) {
          return found;
        }
      }
    }
    return null;
  }

  private MethodHandle of(Class<?> type) {
    if (!Modifier.isPublic(type.getModifiers())) {
      return null;
    }
    try {
      Method method = type.getMethod(name);
      return MethodHandles.publicLookup().unreflect(method).asType(SHAPE);
    } catch (ReflectiveOperationException | RuntimeException none) {
      return null;
    }
  }

  /** Null if the object has no such method, or it fails. */
  Object get(Object object) {
    if (object == null) {
      return null;
    }
    try {
      return (Object) get(object.getClass()).invokeExact(object);
    } catch (Throwable failure) {
      return null;
    }
  }
}
