package io.spanwise.jvm;

import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.matcher.ElementMatcher;

/** One place where a primitive is woven in. */
final class Hook {
  /** The group, as settings name it, and the library. */
  final String name;
  final ElementMatcher<? super TypeDescription> type;
  final ElementMatcher<? super MethodDescription> method;
  /** The advice by its name, so that its class is not loaded. */
  final String advice;

  Hook(
      String name,
      ElementMatcher<? super TypeDescription> type,
      ElementMatcher<? super MethodDescription> method,
      String advice) {
    this.name = name;
    this.type = type;
    this.method = method;
    this.advice = "io.spanwise.jvm.hooks." + advice;
  }
}
