package bench.topology;

import java.util.ArrayList;
import java.util.List;

/**
 * A tree of services in levels, as the thesis has them: each service but the root is called by one of the level above,
 * and those of a level share the next one's evenly.
 */
enum Topology {
    LOW(1, 3),
    MIDDLE(1, 3, 7),
    HIGH(1, 3, 9, 15);

    private final int[] levels;

    Topology(int... levels) {
        this.levels = levels;
    }

    int services() {
        int all = 0;
        for (int size : levels) {
            all += size;
        }
        return all;
    }

    /** The services that a service calls. */
    List<Integer> calledBy(int service) {
        List<Integer> called = new ArrayList<>();
        int first = 0;
        for (int level = 0; level + 1 < levels.length; level++) {
            int below = first + levels[level];
            for (int place = 0; place < levels[level + 1]; place++) {
                if (first + place * levels[level] / levels[level + 1] == service) {
                    called.add(below + place);
                }
            }
            first = below;
        }
        return called;
    }

    static String name(int service) {
        return service == 0 ? "ms-web" : "ms-service-" + service;
    }
}
