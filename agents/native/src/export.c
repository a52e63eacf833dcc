/* SW_LTTNG: records go to libspanwise-lttng.so. */
#include "internal.h"

#include <dlfcn.h>

int sw_exporter_load(void) {
    void *library = dlopen("libspanwise-lttng.so.1", RTLD_NOW | RTLD_LOCAL);
    const struct exporter *found = library ? dlsym(library, "sw_exporter") : NULL;
    if (!found || found->abi != EXPORTER_ABI) return -ELIBACC;
    sw_lib.exporter = found;
    return 0;
}

/* The process's name and resource, as `key\0value\0` pairs. */
void sw_export_process(void) {
    struct process_file *p = sw_lib.process;
    char service[1025] = "", resource[8192];
    size_t used = 0;
    for (uint32_t i = 0; i < p->resource_count; i++) {
        for (int part = 0; part < 2; part++) {
            const uint8_t *at = p->heap + p->string_index[p->resource[i][part]];
            uint16_t length;
            memcpy(&length, at, 2);
            if (length > 1024) length = 1024;
            if (i == 0) {
                /* The first is always service.name. */
                memcpy(service, at + 2, length);
                service[length] = 0;
            } else if (used + length + 1 <= sizeof resource) {
                memcpy(resource + used, at + 2, length);
                resource[used + length] = 0;
                used += length + 1u;
            }
        }
    }
    sw_lib.exporter->process(p->pid, service, resource, used);
}

static void export_span(struct exported_span *span, uint16_t site, uint64_t start, uint64_t tick) {
    char name[1025];
    struct site_entry *entry = &sw_lib.process->site[site];
    span->duration_ns = tick > start ? tick - start : 0;
    span->pid = sw_lib.process->pid;
    span->kind = span->kind ? span->kind : entry->kind;
    span->name = sw_site_name(site, name, sizeof name);
    sw_lib.exporter->span(span);
}

void sw_export_slot(struct thread *t, struct slot *slot, uint32_t depth, uint64_t tick) {
    struct exported_span span = { .kind = slot->kind, .status = slot->status };
    sw_context_of(slot->start << 6 | depth, &span.context);
    span.flags = (uint16_t)(span.context.flags | 0x100);
    if (slot->flags & REMOTE) {
        span.parent_id = slot->parent;
        span.flags |= 0x200;
    } else if (depth) {
        span.parent_id = span_id(t->salt, t->file->slots[depth - 1].start);
    }
    export_span(&span, slot->site, slot->start, tick);
}

void sw_export_detached(struct thread *t, const struct sw_detached *detached, uint64_t tick) {
    (void)t;
    struct exported_span span = { .context = detached->context, .parent_id = detached->parent_id, .status = detached->status };
    span.flags = (uint16_t)(span.context.flags | 0x100);
    export_span(&span, detached->site, detached->start, tick);
}

int sw_export_attrs(uint64_t of, const struct sw_attr *attrs, size_t n) {
    if (n > 128) return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        if (attrs[i].type < SW_I64 || attrs[i].type > SW_BYTES) return -EINVAL;
    }
    for (size_t i = 0; i < n; i++) {
        const struct sw_attr *a = &attrs[i];
        if (a->type < SW_STRING) {
            sw_lib.exporter->attribute(of, a->key->name, (uint8_t)a->type, &a->value, 8);
            continue;
        }
        size_t length = a->length > 4096 ? 4096 : a->length;
        sw_lib.exporter->attribute(of, a->key->name, (uint8_t)a->type, a->value.bytes, length);
        if (length < a->length) {
            const int64_t yes = 1;
            sw_lib.exporter->attribute(of, "spanwise.value_cut", SW_BOOL, &yes, 8);
        }
    }
    return 0;
}
