//! The table of counters.

use super::CounterMeaning;
use spanwise_api::CounterPart;
use spanwise_api::Level::{self, Fault, Info, Loss};

const fn row(
    name: &'static str,
    level: Level,
    meaning: &'static str,
    action: &'static str,
) -> CounterMeaning {
    CounterMeaning { name, level, meaning, action }
}

const fn info(name: &'static str, meaning: &'static str) -> CounterMeaning {
    row(name, Info, meaning, "")
}

const REPORT: &str = "send a recording (`spanwise agent --record FILE`) with a bug report";
const SENDER: &str = "correct the sender; its own log has the answer that it got, and this \
                      server's log names it";
const DISK: &str = "look at the server's log and at the disk under --data";

/// The parts with counters.
pub(super) const PARTS: [(CounterPart, &[CounterMeaning]); 4] = [
    (CounterPart::Agent, AGENT),
    (CounterPart::Ingest, INGEST),
    (CounterPart::Assembly, ASSEMBLY),
    (CounterPart::Store, STORE),
];

/// Counters whose names begin with this.
pub(super) const FAMILIES: &[CounterMeaning] = &[
    row("spans_rejected_", Loss, "spans could not be taken as they were sent", SENDER),
    row(
        "spans_clock_",
        Info,
        "spans with times that cannot be right; kept, and marked by the attribute spanwise.clock",
        "",
    ),
    row("remote_", Info, "object storage was used", ""),
    row("queue_", Info, "what waits in the agent to be sent", ""),
];

/// The counter of recoveries from an agent's loss.
pub(super) fn recovered_by(name: &str) -> Option<&'static str> {
    (name == "framing_lost").then_some("resynchronised")
}

/// Agents, and their senders.
const AGENT: &[CounterMeaning] = &[
    info("native_spans_sent", "spans of native programs that the server has"),
    row(
        "native_spans_refused",
        Loss,
        "spans of native programs that could not be read, or that the server refused",
        "the agent's log says why",
    ),
    info(
        "native_spans_open",
        "spans of native programs that were open when their thread or process ended; they have \
         the attribute spanwise.open",
    ),
    row(
        "native_spans_overwritten",
        Loss,
        "spans of native programs were overwritten, or their segments deleted, before they were \
         read",
        "raise disk_bytes or ring_bytes in the program, or see why the server took nothing",
    ),
    row(
        "native_spans_damaged",
        Loss,
        "spans of native programs were in parts of their files that are damaged or missing",
        "see whether something else writes to the directory, or its disk fails",
    ),
    row(
        "native_spans_dropped_full",
        Loss,
        "spans of native programs were not started, as their ring was full",
        "raise ring_bytes in the program",
    ),
    row(
        "native_spans_dropped_depth",
        Loss,
        "spans of native programs were not started, as 64 of the thread were open",
        "end spans, or begin fewer within each other",
    ),
    row(
        "native_records_dropped_signal",
        Loss,
        "records of signal handlers were dropped, as they interrupted another record",
        "record less in signal handlers",
    ),
    row(
        "native_ends_dropped",
        Loss,
        "spans of native programs lost their end: no room, or a full disk",
        "make room on the disk of their directory",
    ),
    row(
        "native_extras_dropped",
        Loss,
        "attributes, events, links, log records or metrics of native programs had no room",
        "raise ring_bytes in the program",
    ),
    row(
        "native_ends_misused",
        Fault,
        "spans of native programs were ended twice, or by another thread",
        "correct the program: only detached spans may be ended by another thread",
    ),
    row(
        "native_attributes_late",
        Loss,
        "attributes came after the end of their detached span, or of one that is not known",
        "set attributes before the end",
    ),
    row(
        "native_detached_beyond_bounds",
        Loss,
        "attributes and beginnings of detached spans were not kept: too many were open",
        "end detached spans",
    ),
    row(
        "native_threads_without_ring",
        Loss,
        "threads of native programs got no ring: more than 1,024, or a full disk",
        "make room on the disk, or use fewer threads",
    ),
    info("native_processes", "native programs that are followed"),
    info("native_rings", "their threads"),
    info("native_logs_sent", "log records of native programs that were sent to agent.logs_to"),
    row(
        "native_logs_unsent",
        Loss,
        "log records of native programs were not sent: Spanwise keeps spans only",
        "name an OTLP endpoint with agent.logs_to; if one is named, the agent's log says more",
    ),
    info("native_points_sent", "points of native programs that were sent to agent.metrics_to"),
    row(
        "native_points_unsent",
        Loss,
        "points of native programs' metrics were not sent: Spanwise keeps spans only",
        "name an OTLP endpoint with agent.metrics_to; if one is named, the agent's log says more",
    ),
    row(
        "native_parts_unreadable",
        Loss,
        "parts of native programs' files could not be read",
        "the agent's log names them",
    ),
    info("host_points_sent", "points of this host's metrics that were sent to agent.metrics_to"),
    row(
        "host_points_unsent",
        Loss,
        "points of this host's metrics were not sent",
        "see whether the endpoint at agent.metrics_to is there; the agent's log says more",
    ),
    row(
        "host_waits_uncounted",
        Loss,
        "waits for a processor are missing in this host's metrics: more than 8,192 processes, or \
         65,536 threads that wait, at a time",
        "send metrics of hosts more often: agent.host_metrics_every",
    ),
    row(
        "host_bytes_uncounted",
        Loss,
        "bytes of processes are missing in this host's metrics: more than 8,192 processes at a time",
        "send metrics of hosts more often: agent.host_metrics_every",
    ),
    info("events", "events from the kernel that were taken in"),
    row(
        "events_lost_in_kernel",
        Loss,
        "the agent did not keep up with the kernel, and events were dropped",
        "raise agent.ring_bytes there, or give the agent more CPU",
    ),
    row(
        "kernel_events_lost_ring_full",
        Loss,
        "the agent did not keep up with the kernel, and events were dropped",
        "raise agent.ring_bytes there, or give the agent more CPU",
    ),
    row(
        "kernel_lifecycle_lost_ring_full",
        Loss,
        "openings and closings of connections were dropped, as the buffer for them was full",
        "raise agent.ring_bytes there, or give the agent more CPU",
    ),
    info("bytes_seen", "bytes that went through traced sockets"),
    info("spans", "spans made"),
    info("spans_sampled_out", "requests of which no span was made, as sampling left them out"),
    info("connections_opened", "connections opened or first seen"),
    info("unix_connections_read", "connections of Unix sockets whose protocol was recognised"),
    info(
        "connections_without_opening",
        "connections that were open before the agent: their addresses may be unknown",
    ),
    row(
        "connections_evicted",
        Loss,
        "connections were given up, as there were too many or they held too much",
        "raise agent.memory_budget, or trace less with agent.only and agent.except",
    ),
    info(
        "connections_of_unknown_protocol",
        "connections whose protocol was not recognised; each is one span, or one a part",
    ),
    info(
        "connections_encrypted",
        "encrypted connections whose plaintext is not seen; each is one span, or one a part",
    ),
    info("connections_decrypted", "connections whose plaintext a TLS library gave"),
    info("connections_switched", "connections that left their protocol (upgrades, subscriptions)"),
    info("connections_captured_further", "connections of which more of each call is captured"),
    info("protocol_changes", "times that a connection turned out to speak another protocol"),
    info("bytes_moved_by_sendfile", "bytes of files that were counted and not read"),
    row(
        "bytes_moved_by_io_uring",
        Loss,
        "bytes moved by io_uring were counted and not read: their requests may be missing",
        "switch io_uring off in the program, or use OpenTelemetry in it",
    ),
    row(
        "io_uring_calls_unseen",
        Loss,
        "calls by io_uring were not seen: their requests are missing",
        "switch io_uring off in the program, or use OpenTelemetry in it",
    ),
    info("bytes_moved_by_other_calls", "bytes moved by calls that are not read"),
    row(
        "gap_bytes",
        Loss,
        "bytes of connections were not seen; requests in them are missing, or have less detail",
        "see whether kernel_events_lost_ring_full or kernel_calls_missed counts; else send a \
         recording (`spanwise agent --record FILE`) with a bug report",
    ),
    info("overlaps", "events that repeated bytes already seen"),
    info("heads_cut", "message heads that were longer than what is captured; their spans say less"),
    row("framing_lost", Loss, "messages whose end had to be guessed", REPORT),
    info("resynchronised", "times that reading a connection set in again after a loss"),
    row("malformed_messages", Loss, "bytes that were no message where one should begin", REPORT),
    row(
        "out_of_step",
        Loss,
        "answers could not be those of the requests that waited for one; these have no result",
        REPORT,
    ),
    row(
        "operations_unknown",
        Info,
        "spans that do not say what was called: that was said before the agent saw the connection, \
         or in bytes that it did not see; they have the attribute spanwise.operation",
        "",
    ),
    row(
        "statuses_unknown",
        Info,
        "spans that do not say how they ended, as that was not seen; their status is unknown",
        "",
    ),
    info("orphan_responses", "responses whose requests were not seen, as at the agent's start"),
    row(
        "requests_lost",
        Loss,
        "requests were given up, as bytes of their connections were not seen",
        "see gap_bytes and kernel_events_lost_ring_full",
    ),
    row(
        "requests_over_limit",
        Loss,
        "requests beyond what may be open on one connection have no span",
        REPORT,
    ),
    info("requests_timed_out", "requests that got no answer in time"),
    info("fragments_ambiguous", "calls that could belong to several requests of their process"),
    row("plugin_traps", Fault, "a plugin failed", "read the agent's log; tell the plugin's author"),
    row(
        "plugin_calls_without_end",
        Fault,
        "a plugin ran for too long",
        "read the agent's log; tell the plugin's author",
    ),
    row(
        "plugin_memory_refused",
        Fault,
        "a plugin wanted more memory than it may have",
        "read the agent's log; tell the plugin's author",
    ),
    row(
        "plugin_answers_invalid",
        Fault,
        "a plugin answered what means nothing",
        "read the agent's log; tell the plugin's author",
    ),
    row(
        "plugin_calls_over_budget",
        Loss,
        "a plugin took too much time, and messages were left out",
        "tell the plugin's author",
    ),
    row(
        "plugins_switched_off",
        Fault,
        "a plugin failed too often and is not asked any more",
        "read the agent's log, correct the plugin, and start the agent anew",
    ),
    info("processes_without_thread_discipline", "processes whose threads serve several requests"),
    row(
        "tls_calls_without_socket",
        Info,
        "calls of TLS libraries of which it is not known through which socket they went",
        "",
    ),
    row(
        "connections_closed_unseen",
        Info,
        "connections of which the closing was not seen; they are forgotten after a while",
        "",
    ),
    info("reads_after_close_unseen", "reads of connections that were closed already"),
    row(
        "kernel_calls_missed",
        Loss,
        "calls were missed, as this kernel lets no hook interrupt another",
        "a kernel from Linux 6.4 on has hooks that do not interrupt each other",
    ),
    info("processes_known", "processes that are traced"),
    info("tls_libraries_probed", "files of TLS libraries that have probes"),
    info("tls_looks_at_processes_asked", "looks for TLS libraries that were asked for"),
    info("tls_looks_at_processes_done", "looks for TLS libraries that were done"),
    row(
        "kernel_records_undecodable",
        Fault,
        "the kernel side sent what the agent cannot read",
        "the program and its kernel side do not fit: install it anew",
    ),
    row(
        "recording_events_unwritten",
        Fault,
        "events could not be written to the recording",
        "look at the disk of agent.record",
    ),
    row("batches_unbuilt", Fault, "spans could not be made into a batch, and are lost", REPORT),
    info("processes_with_goroutines_followed", "Go programs whose goroutines are followed"),
    info("processes_with_python_contexts_followed", "Python programs whose tasks are followed"),
    info("processes_with_virtual_threads_followed", "JVMs whose virtual threads are followed"),
    info("processes_with_handed_work_followed", "programs that tell what their threads hand on"),
    info(
        "processes_with_tasks_unknown",
        "programs whose tasks cannot be followed: of their calls less is known",
    ),
    // The agent's sender.
    info("batches_sent", "batches sent to the server"),
    info("bytes_sent", "bytes sent to the server"),
    info("batches_acknowledged", "batches that the server has made durable"),
    info("spans_acknowledged", "spans that the server has made durable"),
    info("spans_offered", "spans given to the agent's sender"),
    row(
        "spans_dropped_queue_full",
        Loss,
        "the agent dropped spans, as the server was away or full for longer than its queue lasts",
        "raise agent.queue_bytes there; see why the server did not take them",
    ),
    row(
        "spans_dropped_rejected",
        Loss,
        "the server could not read spans of an agent",
        "agent and server are of versions that do not fit: update both",
    ),
    row("spans_dropped_encoding", Fault, "spans could not be encoded, and are lost", REPORT),
    row(
        "spans_dropped_shutdown",
        Loss,
        "an agent was stopped before all its spans were sent",
        "give it more time to stop; see whether the server answers it",
    ),
    row("facts_dropped_too_long", Info, "what an agent says of itself was too long to be sent", ""),
    info("connections", "connections that agents made to the server"),
    row(
        "connections_failed",
        Info,
        "attempts of agents to reach the server that failed; they try again",
        "",
    ),
    info("streams_lost", "streams from agents that broke; what was under way was sent again"),
    info(
        "refusals",
        "times that the server had no room for an agent's spans; they were sent again",
    ),
];

/// Receivers.
const INGEST: &[CounterMeaning] = &[
    info(
        "agents_forgotten",
        "agents of which nothing was heard for longest; they made room for others",
    ),
    row(
        "attributes_dropped_limit",
        Loss,
        "attributes of spans with very many were dropped; the span says how many",
        "let the sender set fewer attributes on one span",
    ),
    row(
        "events_dropped_limit",
        Loss,
        "events of spans with very many were dropped; the span says how many",
        "let the sender set fewer events on one span",
    ),
    row(
        "links_dropped_limit",
        Loss,
        "links of spans with very many were dropped; the span says how many",
        "let the sender set fewer links on one span",
    ),
    row(
        "texts_cut",
        Loss,
        "names or values were longer than is kept; they were cut, and the span says so",
        "let the sender write shorter texts",
    ),
    row(
        "connections_evicted",
        Loss,
        "connections that had asked nothing for longest were closed, as all places were taken",
        "raise listen.connections, or see in the log who opens so many",
    ),
    info("connections_closed_idle", "connections that nobody used were closed"),
    row(
        "connections_closed_header_late",
        Loss,
        "requests began and did not come whole in time",
        "see in the log from where; it may be an attack, or a network that loses packets",
    ),
    row(
        "connections_closed_answer_unread",
        Loss,
        "answers were not read by those who asked for them",
        "see in the log from where; a sender that hangs, or an attack",
    ),
    row(
        "connections_of_other_protocol",
        Loss,
        "connections spoke a protocol that their port does not",
        "see in the log from where, and which port takes it",
    ),
    row(
        "connections_not_accepted",
        Fault,
        "the system could not hand over new connections",
        "raise the limit of open files (ulimit -n, LimitNOFILE)",
    ),
    row(
        "connections_refused_address",
        Loss,
        "connections were refused, as their address had too many already",
        "raise listen.connections_per_address, or let that host keep fewer",
    ),
    row(
        "connections_refused_descriptors",
        Loss,
        "connections were refused, so that files can still be opened",
        "raise the limit of open files (ulimit -n, LimitNOFILE)",
    ),
    row(
        "flight_facts_too_large",
        Loss,
        "an agent said more of itself than is kept, and it was dropped",
        "update that agent, if it is one",
    ),
    info("flight_streams_without_secret", "streams of agents of an earlier version"),
    row(
        "requests_wrong_path",
        Loss,
        "requests to paths that are not served there; if they held spans, those are lost",
        SENDER,
    ),
    row(
        "requests_refused_host",
        Loss,
        "requests under a host name that this server does not go by",
        "add the name to server.allowed_hosts, if it is yours",
    ),
    row(
        "requests_refused_origin",
        Loss,
        "requests that a web page of another origin sent",
        "add the origin to receivers.allowed_origins (spans) or server.allowed_origins (API), if \
         it is yours",
    ),
    row(
        "connections_refused",
        Loss,
        "connections were refused, as there were too many",
        "let senders keep fewer connections, or put a collector between",
    ),
    row("flight_facts_malformed", Info, "what an agent says of itself could not be read", ""),
    info("flight_batches_accepted", "batches taken from agents"),
    row(
        "flight_streams_malformed",
        Fault,
        "a stream from an agent could not be read",
        "agent and server are of versions that do not fit: update both",
    ),
    row(
        "flight_batches_refused",
        Info,
        "batches that agents were asked to send again later, as there was no room",
        "",
    ),
    info("flight_spans_accepted", "spans taken from agents"),
    row(
        "flight_streams_refused",
        Loss,
        "streams of agents were refused, as there were too many",
        "see who connects to the port for agents; each agent needs one stream",
    ),
    info("jaeger_grpc_requests", "requests by Jaeger's gRPC"),
    info("jaeger_http_requests", "requests with Jaeger's spans over HTTP"),
    info("jaeger_spans_accepted", "spans taken from Jaeger's clients"),
    info("jaeger_udp_datagrams", "datagrams from Jaeger's clients"),
    row(
        "jaeger_udp_datagrams_dropped_kernel",
        Loss,
        "datagrams with spans came faster than they were read",
        "raise net.core.rmem_max, or let clients report over HTTP or gRPC",
    ),
    row(
        "jaeger_udp_datagrams_dropped_memory",
        Loss,
        "datagrams with spans were dropped for want of memory",
        "let clients report over HTTP or gRPC, which tell them to wait",
    ),
    row(
        "jaeger_udp_datagrams_dropped_queue_full",
        Loss,
        "datagrams with spans came faster than they were stored",
        "let clients report over HTTP or gRPC, which tell them to wait",
    ),
    row(
        "jaeger_udp_datagrams_rejected",
        Loss,
        "datagrams that are no spans in the port's encoding",
        "one port takes compact thrift, the other binary thrift: correct the client's setting",
    ),
    row(
        "jaeger_udp_spans_dropped_refused",
        Loss,
        "spans by UDP were dropped, as the store had no room",
        "see what the store's warnings say; HTTP and gRPC tell senders to wait",
    ),
    row(
        "jaeger_udp_spans_dropped_shutdown",
        Loss,
        "spans by UDP were dropped, as the server was stopped",
        "let clients report over HTTP or gRPC, which tell them to wait",
    ),
    row("links_dropped_invalid_id", Loss, "links of spans had no right ids, and are lost", SENDER),
    info("jvm_requests", "batches of JVM agents"),
    info("jvm_spans_accepted", "spans taken from JVM agents"),
    row(
        "jvm_spans_dropped_ring_full",
        Loss,
        "spans were dropped by JVM agents, as their rings were full",
        "see whether the server is reached and keeps up; sample more rarely in that service",
    ),
    row(
        "jvm_spans_dropped_too_deep",
        Loss,
        "spans were dropped by JVM agents, as 64 were open within one another",
        "turn off the hooks of libraries that call one another so deeply",
    ),
    info("otap_batches", "batches taken by OTAP"),
    row(
        "otap_rows_dropped_no_owner",
        Loss,
        "rows by OTAP that belong to no span, and are lost",
        SENDER,
    ),
    info("otap_spans_accepted", "spans taken by OTAP"),
    row(
        "otap_streams_broken",
        Loss,
        "streams by OTAP that could not be read further; their sender was told",
        SENDER,
    ),
    info("otap_streams_opened", "streams by OTAP"),
    row(
        "otap_streams_outgrown",
        Info,
        "streams by OTAP that were ended, as their dictionaries had grown large; senders begin anew",
        "",
    ),
    row(
        "otap_streams_refused",
        Loss,
        "streams by OTAP were refused, as there were too many",
        "let senders keep fewer streams",
    ),
    info("otlp_grpc_requests", "requests by OTLP over gRPC"),
    info("otlp_http_requests", "requests by OTLP over HTTP"),
    info("otlp_spans_accepted", "spans taken by OTLP"),
    row(
        "requests_broken_off",
        Loss,
        "senders broke off before they had sent all of a request",
        "see whether their time-outs are too short, or something between cuts connections",
    ),
    row(
        "requests_failed",
        Fault,
        "requests failed by a fault of this server",
        "read the server's log, and report what it says",
    ),
    row(
        "requests_malformed",
        Loss,
        "requests could not be read, and nothing of them was kept",
        SENDER,
    ),
    row(
        "requests_refused_memory",
        Loss,
        "senders were told to come again later, as requests under way took all memory for them; \
         those that do not lose their spans",
        "let senders retry; send smaller requests, or fewer at once",
    ),
    row(
        "requests_refused_store",
        Loss,
        "senders were told to come again later, as the store had no room; those that do not lose \
         their spans",
        "see what the store's warnings say; give it more disk, or raise store.recent_bytes",
    ),
    row(
        "requests_timed_out",
        Loss,
        "senders took too long to send a request, and nothing of it was kept",
        "see whether the network to them is slow, or their processes stand still",
    ),
    row(
        "requests_too_large",
        Loss,
        "requests were larger than is taken, and nothing of them was kept",
        "let senders make smaller batches",
    ),
    row(
        "requests_unsupported",
        Loss,
        "requests in an encoding or compression that is not taken",
        SENDER,
    ),
    info("keys_found", "business keys that rules found in spans of applications"),
    row(
        "keys_left_out_no_secret",
        Loss,
        "business keys that are to be hashed and were left out, because the server has no secret",
        "name its file with key_secret_file, or let agents read the keys",
    ),
    info("zipkin_requests", "requests with Zipkin's spans"),
    info("zipkin_spans_accepted", "spans taken from Zipkin's clients"),
];

const ASSEMBLY: &[CounterMeaning] = &[
    info("rows", "spans that were assembled"),
    info("results", "places in trees that were found"),
    info("results_changed", "places that were found anew, as more spans came"),
    row(
        "groups_evicted_window_full",
        Info,
        "traces that were assembled before they were complete, as many were under way; what comes \
         later is joined when they are asked for",
        "",
    ),
    row(
        "groups_cut_too_large",
        Info,
        "traces too large to be assembled at once; they are joined when they are asked for",
        "",
    ),
    info("calls_linked_by_timing", "calls whose request was told by time alone"),
    info("calls_without_likely_request", "calls of which time does not tell the request"),
    info("calls_not_timed_too_many", "calls that were too many to be told apart by time"),
    row(
        "rows_unreadable",
        Fault,
        "stored spans could not be assembled: they are found by their own ids only",
        "read the server's log, and report what it says",
    ),
    row(
        "rows_unannotated_store_failed",
        Fault,
        "what was assembled could not be kept; it is assembled again when it is asked for",
        DISK,
    ),
    row(
        "metrics_spans_folded",
        Info,
        "spans that were counted for Prometheus under the name `other`, as there are more names \
         than metrics.series",
        "",
    ),
    row(
        "metrics_calls_folded",
        Info,
        "calls between services that were counted for Prometheus under the name `other`, likewise",
        "",
    ),
    row(
        "metrics_traces_counted_early",
        Info,
        "traces whose calls were counted for Prometheus before ten seconds were over, as many were \
         under way; the called side may be unknown there",
        "",
    ),
    row(
        "metrics_traces_reopened",
        Info,
        "traces of which spans came after their calls had been counted for Prometheus",
        "",
    ),
    row(
        "metrics_spans_changed_late",
        Info,
        "spans whose parent or trace was found anew after they had been counted for Prometheus; \
         the service map has them right",
        "",
    ),
    row(
        "metrics_spans_not_assembled",
        Fault,
        "spans whose calls are not counted for Prometheus, as assembly did not take them",
        "read the server's log, and report what it says",
    ),
    info("rollup_traces", "traces that were counted in rollups as they settled"),
    info(
        "rollup_traces_read_again",
        "traces that were read again for rollups, as spans came after they were counted",
    ),
    info(
        "rollup_minutes_changed_late",
        "times that spans came to a stored rollup, which is made again from spans",
    ),
    info(
        "rollup_rows_let_go",
        "spans that rollups did not hold until their traces settled, as there were too many; their \
         minutes are made from spans",
    ),
    info(
        "rollup_minutes_given_up",
        "minutes whose rollups are made from spans, as not all of their traces could be held",
    ),
    info("rollup_minutes_counted", "rollups of minutes that were counted as traces settled"),
    info("rollup_minutes_from_spans", "rollups of minutes that were made from spans"),
    info("rollup_hours", "rollups of hours"),
    row(
        "rollup_failures",
        Fault,
        "rollups could not be made or corrected; figures are of spans instead",
        DISK,
    ),
];

const STORE: &[CounterMeaning] = &[
    info("derived_files", "files of rollups"),
    info(
        "derived_files_outdated",
        "files of rollups to which spans came late, and that are made again",
    ),
    info("derived_bytes", "bytes of rollups"),
    row(
        "derived_files_broken",
        Fault,
        "files of rollups were damaged and set aside; they are made again from spans",
        DISK,
    ),
    info(
        "derived_files_refused",
        "rollups that were not written, as spans were deleted or came late meanwhile; they are made \
         again",
    ),
    info("spans_duplicate", "spans that were sent again, and are stored once"),
    row(
        "files_not_asked_for_duplicates",
        Fault,
        "files could not be read to see whether a late span is in them; it was stored, and may \
         be there twice",
        DISK,
    ),
    row(
        "clock_jumps_ahead",
        Fault,
        "the clock was ahead by more than can be; nothing is deleted by age meanwhile",
        "correct the clock, or confirm it as the warning says",
    ),
    info(
        "bytes_dropped_by_age",
        "bytes of files that were deleted, as they were older than retain.age",
    ),
    info(
        "bytes_dropped_by_size",
        "bytes of files that were deleted, as there was more than retain.bytes",
    ),
    info("batches_duplicate", "batches that were sent again, and are stored once"),
    row(
        "batches_refused_log_unwritten",
        Fault,
        "batches were refused, as the write-ahead log could not be written",
        DISK,
    ),
    row(
        "batches_refused_memory_full",
        Loss,
        "batches were refused for want of memory; senders that do not retry lose them",
        "raise store.recent_bytes, or send less",
    ),
    row(
        "batches_refused_too_large",
        Loss,
        "batches were refused, as one alone is larger than all memory for recent spans",
        "raise store.recent_bytes, or let senders make smaller batches",
    ),
    row(
        "batches_refused_spool_full",
        Loss,
        "batches were refused, as ClickHouse is away and the disk for what waits is full",
        "see what the warnings say of ClickHouse; raise store.spool_bytes",
    ),
    info("deletions", "deletions on request"),
    info("rows_deleted_on_request", "spans that were deleted on request"),
    info(
        "files_rewritten_without_deleted",
        "files that were written anew without what was deleted",
    ),
    row("file_writes_failed", Fault, "files could not be written; it is tried again", DISK),
    info("files_written", "files written"),
    info("files_merged", "files that became part of larger ones"),
    row(
        "files_broken_set_aside",
        Fault,
        "files were found broken and set aside: their spans are missing",
        DISK,
    ),
    row("files_unreadable", Fault, "files could not be read: their spans are missing", DISK),
    info("files_dropped_by_age", "files that were older than store.retain_age"),
    info("rows_dropped_by_age", "spans that were older than store.retain_age"),
    info("files_dropped_by_size", "files that were dropped to keep store.retain_bytes"),
    info("rows_dropped_by_size", "spans that were dropped to keep store.retain_bytes"),
    info("files_inserted", "files that ClickHouse has taken"),
    info("rows_inserted", "spans that ClickHouse has taken"),
    row(
        "log_segments_unreadable",
        Fault,
        "segments of the write-ahead log could not be read: their spans are missing",
        DISK,
    ),
    row(
        "log_segments_damaged",
        Fault,
        "segments of the write-ahead log were damaged: some of their spans are missing",
        DISK,
    ),
    row("log_bytes_damaged", Fault, "bytes of the write-ahead log were damaged", DISK),
    row(
        "spool_notes_broken",
        Fault,
        "a note of what was sent to ClickHouse was broken: spans may be there twice",
        DISK,
    ),
    row(
        "spool_notes_failed",
        Fault,
        "a note of what was sent to ClickHouse could not be written: spans may be there twice",
        DISK,
    ),
    info("spool_files", "files that wait to be sent to ClickHouse"),
    row(
        "remote_requests_failed",
        Info,
        "requests to object storage that failed; they are tried again",
        "",
    ),
    row(
        "remote_uploads_failed",
        Loss,
        "files could not be brought to object storage; they stay here, and it is tried again",
        "see what the warnings say of object storage",
    ),
    row(
        "remote_files_not_reached",
        Loss,
        "files in object storage could not be read: answers went without them",
        "see what the warnings say of object storage",
    ),
    row("remote_cache_writes_failed", Fault, "copies of remote files could not be kept here", DISK),
    row(
        "remote_local_copies_broken",
        Info,
        "copies of remote files were broken here, and are fetched anew",
        "",
    ),
];
