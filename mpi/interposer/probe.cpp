// Probes: whether there is a message, and which. A probe that matches (Mprobe, Improbe) takes it away at
// once, so nothing is left to chance for the receive behind it.
#include "mpi/interposer/contents.h"
#include "mpi/interposer/early.h"
#include "mpi/interposer/handlers.h"
#include "mpi/interposer/outcomes.h"

namespace cairn::mpi {
namespace {

bool wild(int source, int tag) {
    return source != MPI_PROC_NULL && (source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG);
}

// `run` probes for source and tag into a status.
template <class F>
int wait_for(MPI_Comm comm, int source, int tag, MPI_Status* status, const F& run) {
    const Session& s = *session;
    if (source == MPI_PROC_NULL || (!wild(source, tag) && !s.storing && !s.alone))
        return run(source, tag, status);
    if (s.alone) {
        if (wild(source, tag)) static_cast<void>(recorded_probe(source, tag));
        return fed_probe(comm, status);
    }
    MPI_Status own;
    MPI_Status* known = status == MPI_STATUS_IGNORE ? &own : status;
    if (replaying()) {
        const Envelope found = recorded_probe(source, tag);
        return run(found.source, found.tag, known);
    }
    const int result = run(source, tag, known);
    if (result == MPI_SUCCESS && wild(source, tag))
        record_probe(source, tag, {known->MPI_SOURCE, known->MPI_TAG});
    if (s.storing) store_probe(result, *known);
    return result;
}

// `look` may say no; `wait` is the same call that waits.
template <class L, class W>
int ask(MPI_Comm comm, int source, int tag, int* flag, MPI_Status* status, const L& look, const W& wait) {
    if (source == MPI_PROC_NULL) return look(status);
    if (session->tracer) session->tracer->by_chance();
    if (replaying()) {
        *flag = recorded_answer() ? 1 : 0;
        if (*flag == 0) {
            let_others_run();
            return MPI_SUCCESS;
        }
        return wait_for(comm, source, tag, status, wait);
    }
    MPI_Status own;
    MPI_Status* known = status == MPI_STATUS_IGNORE ? &own : status;
    *flag = 0;
    const int result = look(known);
    if (result != MPI_SUCCESS) *flag = 0;
    record_answer(*flag != 0);
    if (*flag == 0)
        let_others_run();
    else if (wild(source, tag))
        record_probe(source, tag, {known->MPI_SOURCE, known->MPI_TAG});
    if (*flag != 0 && session->storing) store_probe(result, *known);
    return result;
}

// Several threads: true if the probe is to be tried until it finds something, so that it is one with its
// step. In replay the step is waited for first.
bool before_waiting(int source) {
    if (!threaded() || source == MPI_PROC_NULL) return false;
    if (replaying()) next_step();
    return !replaying();
}

template <class F>
int poll(const F& look) {
    int result = MPI_SUCCESS;
    wait_until([&] {
        int flag = 0;
        result = look(&flag);
        return flag != 0 || result != MPI_SUCCESS;
    });
    return result;
}

}  // namespace

int on_Probe(Call call, int source, int tag, MPI_Comm comm, MPI_Status* status) {
    const Inside guard;
    begin(call, source, comm, tag);
    MPI_Status own;
    MPI_Status* seen = status == MPI_STATUS_IGNORE ? &own : status;
    const bool polled = before_waiting(source);
    const int result = wait_for(comm, source, tag, seen, [&](int from, int with, MPI_Status* known) {
        if (!polled) return probe(from, with, comm, known);
        return poll([&](int* flag) { return real.Iprobe(from, with, comm, flag, known); });
    });
    if (session->tracer && result == MPI_SUCCESS)
        session->tracer->found(comm, {source, tag}, seen->MPI_SOURCE, seen->MPI_TAG);
    return result;
}

int on_Iprobe(Call call, int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
    const Inside guard;
    begin(call, source, comm, tag);
    MPI_Status own;
    MPI_Status* seen = status == MPI_STATUS_IGNORE ? &own : status;
    const int result = ask(
        comm, source, tag, flag, seen,
        [&](MPI_Status* known) { return real.Iprobe(source, tag, comm, flag, known); },
        [&](int from, int with, MPI_Status* known) { return probe(from, with, comm, known); });
    if (session->tracer && result == MPI_SUCCESS && *flag != 0)
        session->tracer->found(comm, {source, tag}, seen->MPI_SOURCE, seen->MPI_TAG);
    return result;
}

int on_Mprobe(Call call, int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
    const Inside guard;
    begin(call, source, comm, tag);
    MPI_Status own;
    MPI_Status* seen = status == MPI_STATUS_IGNORE ? &own : status;
    const bool polled = before_waiting(source);
    const int result = wait_for(comm, source, tag, seen, [&](int from, int with, MPI_Status* known) {
        if (!polled) return matched_probe(from, with, comm, message, known);
        return poll([&](int* flag) { return real.Improbe(from, with, comm, flag, message, known); });
    });
    if (session->alone && result == MPI_SUCCESS && source != MPI_PROC_NULL) *message = placeholder_message();
    if (session->tracer && result == MPI_SUCCESS)
        session->tracer->matched(comm, *message, {source, tag}, seen->MPI_SOURCE, seen->MPI_TAG);
    return result;
}

int on_Improbe(Call call, int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
               MPI_Status* status) {
    const Inside guard;
    begin(call, source, comm, tag);
    MPI_Status own;
    MPI_Status* seen = status == MPI_STATUS_IGNORE ? &own : status;
    const int result = ask(
        comm, source, tag, flag, seen,
        [&](MPI_Status* known) { return real.Improbe(source, tag, comm, flag, message, known); },
        [&](int from, int with, MPI_Status* known) {
            return matched_probe(from, with, comm, message, known);
        });
    if (session->alone && result == MPI_SUCCESS && *flag != 0 && source != MPI_PROC_NULL)
        *message = placeholder_message();
    if (session->tracer && result == MPI_SUCCESS && *flag != 0)
        session->tracer->matched(comm, *message, {source, tag}, seen->MPI_SOURCE, seen->MPI_TAG);
    return result;
}

int on_Mrecv(Call call, void* buf, int count, MPI_Datatype type, MPI_Message* message, MPI_Status* status) {
    const Inside guard;
    begin(call, MPI_PROC_NULL, MPI_COMM_WORLD);
    if (session->tracer) session->tracer->receives_matched(*message, {count, type});
    if (Early* taken = early_of(message)) {
        next_step();
        return receive_early(taken, buf, count, type, MPI_COMM_WORLD, status);
    }
    if (threaded() && *message == MPI_MESSAGE_NO_PROC) {
        next_step();
    } else if (threaded()) {
        MPI_Request request = MPI_REQUEST_NULL;
        const int result = real.Imrecv(buf, count, type, message, &request);
        const int waited = mpi::wait_for(&request, status);
        return result == MPI_SUCCESS ? waited : result;
    }
    if ((!session->storing && !session->alone) || *message == MPI_MESSAGE_NO_PROC)
        return real.Mrecv(buf, count, type, message, status);
    MPI_Status own;
    MPI_Status* known = status == MPI_STATUS_IGNORE ? &own : status;
    if (session->alone) {
        real.Mrecv(nullptr, 0, MPI_BYTE, message, MPI_STATUS_IGNORE);
        return fed_received(MPI_COMM_WORLD, *known, {buf, count, type}, {.by_itself = true});
    }
    const int result = real.Mrecv(buf, count, type, message, known);
    store_received(result, *known, {buf, count, type});
    return result;
}

int on_Imrecv(Call call, void* buf, int count, MPI_Datatype type, MPI_Message* message,
              MPI_Request* request) {
    const Inside guard;
    begin(call, MPI_PROC_NULL, MPI_COMM_WORLD);
    const MPI_Message matched = *message;
    if (Early* taken = early_of(message)) {
        Posted posted;
        const int made = request_early(taken, buf, count, type, request, posted);
        if (posted.truncated && made == MPI_SUCCESS) {
            Posted& kept = session->requests.add(bits(*request));
            kept.truncated = true;
            kept.comm = MPI_COMM_WORLD;
        }
        if (session->tracer && made == MPI_SUCCESS)
            session->tracer->receives_matched(matched, *request, {count, type});
        return made;
    }
    if (session->alone && matched != MPI_MESSAGE_NO_PROC) {
        real.Mrecv(nullptr, 0, MPI_BYTE, message, MPI_STATUS_IGNORE);
        *request = placeholder();
    }
    const int result = session->alone && matched != MPI_MESSAGE_NO_PROC
                           ? fed_result(MPI_COMM_WORLD)
                           : real.Imrecv(buf, count, type, message, request);
    if (session->storing && matched != MPI_MESSAGE_NO_PROC) store_result(result);
    if ((session->storing || session->alone) && result == MPI_SUCCESS && matched != MPI_MESSAGE_NO_PROC) {
        Posted& posted = session->requests.add(bits(*request));
        posted.matched = true;
        posted.buffer = buf;
        posted.count = count;
        posted.type = keep(type);
        posted.comm = MPI_COMM_WORLD;
    }
    if (session->tracer && result == MPI_SUCCESS)
        session->tracer->receives_matched(matched, *request, {count, type});
    return result;
}

}  // namespace cairn::mpi
