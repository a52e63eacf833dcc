package bench.jmh;

import bench.tracing.Settings;
import bench.tracing.Tracing;
import jakarta.servlet.Filter;
import java.util.Map;
import java.util.TreeMap;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.boot.web.servlet.context.ServletWebServerApplicationContext;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.support.GenericApplicationContext;

/** Starts applications of Spring Boot in this process, each with the filter of a tracer that has one. */
final class Spring {
    private Spring() {}

    static ConfigurableApplicationContext start(Class<?> application, Tracing tracing, Map<String, Object> more) {
        SpringApplication spring = new SpringApplication(application);
        Map<String, Object> properties = new TreeMap<>(Map.of(
                "spring.main.banner-mode", "off",
                "logging.level.root", "warn",
                "server.address", "127.0.0.1",
                "server.port", 0,
                "server.tomcat.max-keep-alive-requests", -1,
                "spring.autoconfigure.exclude", Settings.WITHOUT_TRACING));
        properties.putAll(more);
        spring.setDefaultProperties(properties);
        spring.addInitializers(context -> register((GenericApplicationContext) context, tracing));
        return spring.run();
    }

    static int port(ConfigurableApplicationContext context) {
        return ((ServletWebServerApplicationContext) context).getWebServer().getPort();
    }

    private static void register(GenericApplicationContext context, Tracing tracing) {
        context.registerBean(Tracing.class, () -> tracing, definition -> definition.setDestroyMethodName(""));
        Filter filter = tracing.filter();
        if (filter != null) {
            context.registerBean("tracingFilter", FilterRegistrationBean.class, () -> {
                FilterRegistrationBean<Filter> bean = new FilterRegistrationBean<>(filter);
                bean.setOrder(Integer.MIN_VALUE);
                return bean;
            });
        }
    }
}
