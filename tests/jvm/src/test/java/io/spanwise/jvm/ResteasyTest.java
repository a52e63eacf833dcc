package io.spanwise.jvm;

import org.junit.jupiter.api.Test;

/** Routes of RESTEasy, in a virtual machine that has no other runtime of JAX-RS in use. */
class ResteasyTest {
  @Test
  void routes() throws Exception {
    RouteTest.ResteasyCase.run();
  }
}
