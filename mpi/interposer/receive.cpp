// Receives: which message each gets is written down where it could be another, and asked for by name in
// replay.
#include "mpi/interposer/another_first.h"
#include "mpi/interposer/bottom.h"
#include "mpi/interposer/contents.h"
#include "mpi/interposer/early.h"
#include "mpi/interposer/handlers.h"
#include "mpi/interposer/outcomes.h"

namespace cairn::mpi {
namespace {

bool truncated(int result) {
    int kind = MPI_SUCCESS;
    ::PMPI_Error_class(result, &kind);
    return kind == MPI_ERR_TRUNCATE;
}

// A receive that returns when it has its message. `run` gets source, tag and status to give to the MPI.
template <class F>
int blocking(MPI_Comm comm, int source, int tag, MPI_Status* status, const Buffer& into, const F& run) {
    Posted posted;
    post_receive(posted, source, tag);
    const bool storing = session->storing;
    if (!posted.wild() && !posted.dead && !session->tracer && !storing && !session->alone)
        return run(source, tag, status);
    MPI_Status own;
    MPI_Status* known = status == MPI_STATUS_IGNORE ? &own : status;
    if (session->alone) {
        if (source != MPI_PROC_NULL) stand_within();
        session->last.peer = source;
        const int kind = fed_received(comm, *known, into, {source, tag});
        if (kind != MPI_SUCCESS && kind != MPI_ERR_TRUNCATE) return kind;
        complete_receive(posted, *known);
        if (session->tracer)
            session->tracer->received(comm, {source, tag}, known->MPI_SOURCE, known->MPI_TAG,
                                      {into.count, into.type});
        return kind;
    }
    if (posted.dead) {
        // Either the MPI refused its arguments, then it does so again; or it was waiting when the record
        // ends.
        if (posted.source == source && posted.tag == tag && session->match_reader.ended()) record_ends();
        return run(source, tag, status);
    }
    const int result = run(posted.source, posted.tag, known);
    if (storing) store_received(result, *known, into);
    if (result == MPI_SUCCESS || truncated(result)) {
        complete_receive(posted, *known);
        if (session->tracer)
            session->tracer->received(comm, {source, tag}, known->MPI_SOURCE, known->MPI_TAG,
                                      {into.count, into.type});
    } else {
        failed_receive(posted);
    }
    return result;
}

// A Sendrecv whose message has been taken out of the library before.
int exchange(Early* message, const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
             void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Status* status) {
    MPI_Request sent = MPI_REQUEST_NULL;
    const int sending = real.Isend(sendbuf, sendcount, sendtype, dest, sendtag, comm, &sent);
    const int result = receive_early(message, recvbuf, recvcount, recvtype, comm, status);
    if (sending == MPI_SUCCESS) real.Wait(&sent, MPI_STATUS_IGNORE);
    return sending == MPI_SUCCESS ? result : sending;
}

// A copy of what Sendrecv_replace sends, since its buffer is written to before the send is complete.
class Packed {
  public:
    Packed(void* buffer, int count, MPI_Datatype type) {
        const Seen seen(buffer, type);
        int room = 0;
        ::PMPI_Pack_size(count, seen.type, MPI_COMM_SELF, &room);
        bytes_.resize(static_cast<std::size_t>(room) + 1);
        ::PMPI_Pack(seen.at, count, seen.type, bytes_.data(), room, &size_, MPI_COMM_SELF);
    }
    [[nodiscard]] const void* data() const { return bytes_.data(); }
    [[nodiscard]] int size() const { return size_; }

  private:
    std::vector<char> bytes_;
    int size_ = 0;
};

// A receive that waits, of a process with several threads: in one step it is posted, and `send` is started if
// there is one; with the next it has its message.
template <class F>
int receive_by_steps(MPI_Comm comm, int source, int tag, MPI_Status* status, const Buffer& into,
                     const F& send) {
    Posted posted;
    post_receive(posted, source, tag);
    if (posted.dead && session->match_reader.ended()) {
        next_step();
        record_ends();
    }
    MPI_Status own;
    MPI_Status* known = status == MPI_STATUS_IGNORE ? &own : status;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int result = send(&requests[1]);
    if (result == MPI_SUCCESS)
        result = post(into.at, into.count, into.type, posted.source, posted.tag, comm, &requests[0], posted);
    if (result != MPI_SUCCESS) {
        next_step();
        failed_receive(posted);
        return result;
    }
    wait_until([&] { return is_through(requests[0]) && is_through(requests[1]); });
    // Of a request for it MPICH's MPI_Wait has no source.
    if (source == MPI_PROC_NULL) real.Recv(into.at, into.count, into.type, source, tag, comm, status);
    wait_at(comm, &requests[1], MPI_STATUS_IGNORE);
    result = wait_at(comm, &requests[0], source == MPI_PROC_NULL ? MPI_STATUS_IGNORE : known);
    if (posted.truncated && result == MPI_SUCCESS) result = raise_truncated(comm);
    if (result == MPI_SUCCESS || truncated(result)) {
        complete_receive(posted, *known);
        if (session->tracer)
            session->tracer->received(comm, {source, tag}, known->MPI_SOURCE, known->MPI_TAG,
                                      {into.count, into.type});
    } else {
        failed_receive(posted);
    }
    return result;
}

int start(MPI_Request* request) {
    if (session->tracer) session->tracer->starts(*request);
    Posted* posted = session->requests.find(*request);
    if (session->alone && posted != nullptr) {
        posted->active = true;
        posted->cancel = posted->dead = false;
        if (posted->send || posted->source == MPI_PROC_NULL) return MPI_SUCCESS;
        Posted now;
        post_receive(now, posted->source, posted->tag);
        posted->post = now.post;
        posted->match = now.match;
        posted->dead = now.dead;
        return MPI_SUCCESS;
    }
    if (posted == nullptr) return real.Start(request);
    posted->active = true;
    posted->cancel = false;
    if (posted->send && session->breaking) {
        posted->has_inner = true;
        const int result = send_aside(posted->buffer, posted->count, posted->type, posted->source,
                                      posted->tag, posted->comm);
        return result == MPI_SUCCESS ? finished_request(&posted->inner) : result;
    }
    if (posted->send) return real.Start(request);
    const int source = posted->source, tag = posted->tag;
    Posted now;
    post_receive(now, source, tag);
    posted->post = now.post;
    posted->match = now.match;
    posted->dead = now.dead;
    posted->truncated = false;
    if (!replaying()) return real.Start(request);
    posted->has_inner = true;
    if (posted->dead) return post_dead(posted->buffer, posted->count, posted->type, &posted->inner);
    if (posted->wild())
        return post(posted->buffer, posted->count, posted->type, now.source, now.tag, posted->comm,
                    &posted->inner, *posted);
    if (Early* message = early(posted->comm, now.source, now.tag))
        return request_early(message, posted->buffer, posted->count, posted->type, &posted->inner, *posted);
    posted->has_inner = false;
    return real.Start(request);
}

}  // namespace

int on_Recv(Call call, void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
            MPI_Status* status) {
    const Inside guard;
    begin(call, source, comm, tag);
    if (threaded())
        return receive_by_steps(comm, source, tag, status, {buf, count, type},
                                [](MPI_Request*) { return MPI_SUCCESS; });
    return blocking(comm, source, tag, status, {buf, count, type},
                    [&](int from, int with, MPI_Status* known) {
                        return receive(buf, count, type, from, with, comm, known);
                    });
}

int on_Sendrecv(Call call, const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                void* recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                MPI_Status* status) {
    const Inside guard;
    begin(call, dest, comm, sendtag);
    if (session->tracer) session->tracer->sends(comm, dest, sendtag, {sendcount, sendtype});
    if (session->tracer) session->tracer->stands_at_receive(comm, source, recvtag);
    if (threaded() && !session->breaking)
        return receive_by_steps(
            comm, source, recvtag, status, {recvbuf, recvcount, recvtype}, [&](MPI_Request* request) {
                return real.Isend(sendbuf, sendcount, sendtype, dest, sendtag, comm, request);
            });
    const bool sent = session->breaking;  // also if the job is left where it stands then
    if (sent) {
        if (const int result = send_aside(sendbuf, sendcount, sendtype, dest, sendtag, comm);
            result != MPI_SUCCESS)
            return result;
        stop_if_due();
        if (threaded())
            return receive_by_steps(comm, source, recvtag, status, {recvbuf, recvcount, recvtype},
                                    [](MPI_Request*) { return MPI_SUCCESS; });
    }
    return blocking(comm, source, recvtag, status, {recvbuf, recvcount, recvtype},
                    [&](int from, int with, MPI_Status* known) {
                        if (sent) return receive(recvbuf, recvcount, recvtype, from, with, comm, known);
                        if (Early* message = early(comm, from, with))
                            return exchange(message, sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,
                                            recvcount, recvtype, comm, known);
                        return real.Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                                             recvtype, from, with, comm, known);
                    });
}

int on_Sendrecv_replace(Call call, void* buf, int count, MPI_Datatype type, int dest, int sendtag, int source,
                        int recvtag, MPI_Comm comm, MPI_Status* status) {
    const Inside guard;
    begin(call, dest, comm, sendtag);
    if (session->tracer) session->tracer->sends(comm, dest, sendtag, {count, type});
    if (session->tracer) session->tracer->stands_at_receive(comm, source, recvtag);
    if (threaded() && !session->breaking) {
        const Packed packed(buf, count, type);
        return receive_by_steps(comm, source, recvtag, status, {buf, count, type}, [&](MPI_Request* request) {
            return real.Isend(packed.data(), packed.size(), MPI_PACKED, dest, sendtag, comm, request);
        });
    }
    const bool sent = session->breaking;
    if (sent) {
        if (const int result = send_aside(buf, count, type, dest, sendtag, comm); result != MPI_SUCCESS)
            return result;
        stop_if_due();
        if (threaded())
            return receive_by_steps(comm, source, recvtag, status, {buf, count, type},
                                    [](MPI_Request*) { return MPI_SUCCESS; });
    }
    return blocking(
        comm, source, recvtag, status, {buf, count, type}, [&](int from, int with, MPI_Status* known) {
            if (sent) return receive(buf, count, type, from, with, comm, known);
            if (Early* message = early(comm, from, with)) {
                const Packed packed(buf, count, type);
                return exchange(message, packed.data(), packed.size(), MPI_PACKED, dest, sendtag, buf, count,
                                type, comm, known);
            }
            return real.Sendrecv_replace(buf, count, type, dest, sendtag, from, with, comm, known);
        });
}

int send_by_steps(const Call& call, const void* buf, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    int result = MPI_SUCCESS;
    if (call.fn == Fn::Bsend)
        result = real.Bsend(buf, count, type, dest, tag, comm);
    else if (call.fn == Fn::Ssend)
        result = real.Issend(buf, count, type, dest, tag, comm, &request);
    else if (call.fn == Fn::Rsend)
        result = real.Irsend(buf, count, type, dest, tag, comm, &request);
    else
        result = real.Isend(buf, count, type, dest, tag, comm, &request);
    const int waited = mpi::wait_for(&request, MPI_STATUS_IGNORE);
    return result == MPI_SUCCESS ? waited : result;
}

int on_Irecv(Call call, void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Request* request) {
    const Inside guard;
    begin(call, source, comm, tag);
    if (source == MPI_PROC_NULL) return real.Irecv(buf, count, type, source, tag, comm, request);
    Posted posted;
    post_receive(posted, source, tag);
    int result = MPI_SUCCESS;
    if (session->alone) {
        result = fed_result(comm);
        if (result == MPI_SUCCESS) *request = placeholder();
    } else {
        // Not to be matched, but to be refused where the MPI refuses it.
        result = posted.dead ? post_dead(buf, count, type, request)
                             : post(buf, count, type, posted.source, posted.tag, comm, request, posted);
    }
    if (session->storing) store_result(result);
    if (result != MPI_SUCCESS) {
        failed_receive(posted);
        return result;
    }
    if (session->tracer) session->tracer->posts_receive(comm, *request, {source, tag}, {count, type});
    Posted& kept = session->requests.add(bits(*request));
    posted.key = kept.key;
    posted.used = true;
    posted.buffer = buf;
    posted.count = count;
    posted.comm = comm;
    if (session->storing || session->alone) posted.type = keep(type);
    kept = posted;
    return result;
}

int on_Recv_init(Call call, void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                 MPI_Request* request) {
    const Inside guard;
    begin(call, source, comm, tag);
    const bool wild = source != MPI_PROC_NULL && (source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG);
    // In replay the program holds a request that is never started; each start posts a receive of its own
    // behind it.
    int result = MPI_SUCCESS;
    if (session->alone) {
        result = fed_result(comm);
        if (result == MPI_SUCCESS) *request = placeholder();
    } else {
        result = replaying() && wild ? real.Recv_init(buf, 0, MPI_BYTE, 0, 0, session->own, request)
                                     : real.Recv_init(buf, count, type, source, tag, comm, request);
    }
    if (session->storing) store_result(result);
    if (result != MPI_SUCCESS) return result;
    if (session->tracer) session->tracer->persistent(*request, comm, source, tag, {count, type}, false);
    Posted& posted = session->requests.add(bits(*request));
    posted.persistent = true;
    posted.stand_in = replaying() && wild;
    if (posted.stand_in && session->whereabouts != nullptr) session->whereabouts->bound = 1;
    posted.buffer = buf;
    posted.count = count;
    posted.type = session->storing || session->alone ? keep(type) : type;
    posted.source = source;
    posted.tag = tag;
    posted.comm = comm;
    posted.any_source = wild && source == MPI_ANY_SOURCE;
    posted.any_tag = wild && tag == MPI_ANY_TAG;
    return result;
}

int on_Start(Call call, MPI_Request* request) {
    const Inside guard;
    begin(call, MPI_PROC_NULL, MPI_COMM_WORLD);
    return start(request);
}

int on_Startall(Call call, int count, MPI_Request* requests) {
    const Inside guard;
    begin(call, MPI_PROC_NULL, MPI_COMM_WORLD, count);
    // In the order of their indices, which is the order in which they match.
    for (int i = 0; i < count; ++i) {
        if (i > 0 && session->breaking) stop_if_due();
        if (const int result = start(&requests[i]); result != MPI_SUCCESS) return result;
    }
    return MPI_SUCCESS;
}

// Of a send nothing is cancelled, which MPI allows: whether it can be is a matter of chance, and neither MPI
// here can.
int on_Cancel(Call call, MPI_Request* request) {
    const Inside guard;
    begin(call, MPI_PROC_NULL, MPI_COMM_WORLD);
    Posted* posted = session->requests.find(*request);
    if (posted == nullptr || posted->send || !posted->open()) return MPI_SUCCESS;
    posted->cancel = true;
    if (session->alone) return MPI_SUCCESS;
    if (replaying() && !posted->dead) return MPI_SUCCESS;  // it got its message in spite of it
    return real.Cancel(posted->has_inner ? &posted->inner : request);
}

int on_Request_free(Call call, MPI_Request* request) {
    const Inside guard;
    begin(call, MPI_PROC_NULL, MPI_COMM_WORLD);
    Session& s = *session;
    Posted* posted = s.requests.find(*request);
    if (in_another_order()) [[unlikely]]
        depart_in_another_order("MPI_Request_free");
    if (s.tracer && posted != nullptr && posted->persistent) s.tracer->no_longer_persistent(*request);
    if (s.tracer && (posted == nullptr || posted->send)) s.tracer->gave_up(*request);
    if (posted == nullptr) return real.Request_free(request);
    const bool asked_for = s.tracer || s.storing || s.alone || (recording() && posted->wild());
    if (asked_for && posted->open() && !posted->send && !posted->collective && (!posted->dead || s.alone) &&
        !posted->has_inner) {
        // Which message it gets is still to be seen.
        s.shadows.push_back(*request);
        *request = MPI_REQUEST_NULL;
        return MPI_SUCCESS;
    }
    const bool dead = posted->dead && posted->open();
    if (posted->has_inner) {
        if (dead) real.Cancel(&posted->inner);
        real.Request_free(&posted->inner);
    } else if (dead) {
        real.Cancel(request);
    }
    s.requests.erase(bits(*request));
    return real.Request_free(request);
}

}  // namespace cairn::mpi
