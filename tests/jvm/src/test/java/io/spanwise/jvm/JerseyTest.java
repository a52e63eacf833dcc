package io.spanwise.jvm;

import org.junit.jupiter.api.Test;

/** Routes of Jersey, in a virtual machine that has no other runtime of JAX-RS in use. */
class JerseyTest {
  @Test
  void routes() throws Exception {
    RouteTest.JerseyCase.run();
  }
}
