// What is done with each function: handlers of their own, and those that many share.
#pragma once

#include "mpi/interposer/answers.h"
#include "mpi/interposer/breakpoint.h"
#include "mpi/interposer/contents.h"
#include "mpi/interposer/early.h"
#include "mpi/interposer/session.h"
#include "mpi/interposer/threads.h"

namespace cairn::mpi {

using causality::Leaked;
using causality::Shape;

// Start and end: startup.cpp.
int on_Init(Call call, int* argc, char*** argv);
int on_Init_thread(Call call, int* argc, char*** argv, int required, int* provided);
int on_Finalize(Call call);
int on_Abort(Call call, MPI_Comm comm, int code);

// receive.cpp
int on_Recv(Call call, void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
            MPI_Status* status);
int on_Irecv(Call call, void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Request* request);
int on_Sendrecv(Call call, const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                void* recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                MPI_Status* status);
int on_Sendrecv_replace(Call call, void* buf, int count, MPI_Datatype type, int dest, int sendtag, int source,
                        int recvtag, MPI_Comm comm, MPI_Status* status);
int on_Recv_init(Call call, void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                 MPI_Request* request);
int on_Start(Call call, MPI_Request* request);
int on_Startall(Call call, int count, MPI_Request* requests);
int on_Cancel(Call call, MPI_Request* request);
int on_Request_free(Call call, MPI_Request* request);

// probe.cpp
int on_Probe(Call call, int source, int tag, MPI_Comm comm, MPI_Status* status);
int on_Iprobe(Call call, int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status);
int on_Mprobe(Call call, int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status);
int on_Improbe(Call call, int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
               MPI_Status* status);
int on_Mrecv(Call call, void* buf, int count, MPI_Datatype type, MPI_Message* message, MPI_Status* status);
int on_Imrecv(Call call, void* buf, int count, MPI_Datatype type, MPI_Message* message, MPI_Request* request);

// complete.cpp
int on_Wait(Call call, MPI_Request* request, MPI_Status* status);
int on_Test(Call call, MPI_Request* request, int* flag, MPI_Status* status);
int on_Waitany(Call call, int count, MPI_Request* requests, int* index, MPI_Status* status);
int on_Testany(Call call, int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status);
int on_Waitall(Call call, int count, MPI_Request* requests, MPI_Status* statuses);
int on_Testall(Call call, int count, MPI_Request* requests, int* flag, MPI_Status* statuses);
int on_Waitsome(Call call, int count, MPI_Request* requests, int* outcount, int* indices,
                MPI_Status* statuses);
int on_Testsome(Call call, int count, MPI_Request* requests, int* outcount, int* indices,
                MPI_Status* statuses);
int on_Request_get_status(Call call, MPI_Request request, int* flag, MPI_Status* status);

// clock.cpp
double on_Wtime();

// communicator.cpp
int on_Comm_idup(Call call, MPI_Comm comm, MPI_Comm* made, MPI_Request* request);
int on_Intercomm_create(Call call, MPI_Comm local, int local_leader, MPI_Comm peer, int remote_leader,
                        int tag, MPI_Comm* made);
int on_Comm_free(Call call, MPI_Comm* comm);
int on_Comm_disconnect(Call call, MPI_Comm* comm);
int on_Comm_set_info(Call call, MPI_Comm comm, MPI_Info info);
void note(const Call& call, const char* what, bool refused);
// Notes that a communicator is given leave to let messages overtake each other.
void heed(const Call& call, MPI_Info info);

// A send that waits, of a process with several threads: posted in one step, and over with the next.
int send_by_steps(const Call& call, const void* buf, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm);

template <class F>
int send(Call call, F real_send, const void* buf, int count, MPI_Datatype type, int dest, int tag,
         MPI_Comm comm) {
    const Inside guard;
    begin(call, dest, comm, tag);
    if (session->tracer) session->tracer->sends(comm, dest, tag, {count, type});
    if (session->breaking) {
        const int result = send_aside(buf, count, type, dest, tag, comm);
        next_step();
        return result;
    }
    if (session->alone) return fed_result(comm);
    if (threaded()) return send_by_steps(call, buf, count, type, dest, tag, comm);
    const int result = real_send(buf, count, type, dest, tag, comm);
    if (session->storing) store_result(result);
    return result;
}

template <class F>
int isend(Call call, F real_send, const void* buf, int count, MPI_Datatype type, int dest, int tag,
          MPI_Comm comm, MPI_Request* request) {
    const Inside guard;
    begin(call, dest, comm, tag);
    if (session->alone) {
        const int recorded = fed_result(comm);
        if (recorded != MPI_SUCCESS) return recorded;
        *request = placeholder();
        session->requests.add(bits(*request)).send = true;
        if (session->tracer) session->tracer->sends(comm, dest, tag, {count, type}, *request);
        return recorded;
    }
    int result = session->breaking ? send_aside(buf, count, type, dest, tag, comm)
                                   : real_send(buf, count, type, dest, tag, comm, request);
    if (session->breaking && result == MPI_SUCCESS) result = finished_request(request);
    if (session->storing) store_result(result);
    if (session->tracer && result == MPI_SUCCESS)
        session->tracer->sends(comm, dest, tag, {count, type}, *request);
    return result;
}

template <class F>
int init_send(Call call, F real_init, const void* buf, int count, MPI_Datatype type, int dest, int tag,
              MPI_Comm comm, MPI_Request* request) {
    const Inside guard;
    begin(call, dest, comm, tag);
    const int result =
        session->alone ? fed_result(comm) : real_init(buf, count, type, dest, tag, comm, request);
    if (session->alone && result == MPI_SUCCESS) *request = placeholder();
    if (session->storing) store_result(result);
    if (result == MPI_SUCCESS) {
        Posted& posted = session->requests.add(bits(*request));
        posted.persistent = posted.send = true;
        posted.buffer = const_cast<void*>(buf);
        posted.count = count;
        posted.type = type;
        posted.tag = tag;
        posted.source = dest;
        posted.comm = comm;
        if (session->tracer) session->tracer->persistent(*request, comm, dest, tag, {count, type}, true);
    }
    return result;
}

// The trace of a collective: its return; of several threads its beginning as well, since others' events may
// come between.
class TracedCollective {
  public:
    TracedCollective(MPI_Comm comm, Shape shape, int root) : comm_(comm), shape_(shape), root_(root) {
        session->last.collective = true;
        if (session->tracer && by_parts()) session->tracer->enters(comm_, shape_, root_, this);
        if (session->tracer && !threaded()) session->tracer->stands_in(comm_, shape_, root_);
    }
    void returned(int result) {
        if (!session->tracer) return;
        if (by_parts())
            session->tracer->returns(this);
        else if (result == MPI_SUCCESS)
            session->tracer->collective(comm_, shape_, root_);
    }

  private:
    // So may a checkpoint.
    static bool by_parts() { return threaded() || session->induced != nullptr; }

    MPI_Comm comm_;
    Shape shape_;
    int root_;
};

template <class F>
int coll(Call call, Shape shape, MPI_Comm comm, int root, const Output& output, const F& run) {
    const Inside guard;
    begin(call, root, comm);
    TracedCollective traced(comm, shape, root);
    if (session->alone) {
        stand_within();
        const int recorded = fed_result(comm);
        if (recorded == MPI_SUCCESS) fed_collective(output);
        traced.returned(recorded);
        return recorded;
    }
    const int result = outside(run);
    if (session->storing) {
        store_result(result);
        if (result == MPI_SUCCESS) store_collective(output, shape, comm, root);
    }
    traced.returned(result);
    return result;
}

template <class F>
int icoll(Call call, Shape shape, MPI_Comm comm, int root, MPI_Request* request, const Output& output,
          const F& run) {
    const Inside guard;
    begin(call, root, comm);
    if (session->alone) {
        const int recorded = fed_result(comm);
        if (recorded == MPI_SUCCESS) {
            fed_started(output, *request = placeholder());
            if (session->tracer) session->tracer->collective(comm, shape, root, *request);
        }
        return recorded;
    }
    const int result = run();
    if (session->storing) {
        store_result(result);
        if (result == MPI_SUCCESS) store_started(output, shape, comm, root, *request);
    }
    if (session->tracer && result == MPI_SUCCESS) session->tracer->collective(comm, shape, root, *request);
    return result;
}

// A communicator that is made from this one.
template <class F>
int made_by(Fn fn, MPI_Comm parent, MPI_Comm* made, const F& run) {
    if (session->alone) {
        stand_within();
        const int recorded = fed_result(parent);
        if (recorded != MPI_SUCCESS) return recorded;
        *made = fed_made(parent);
        if (fn != Fn::Comm_dup && fn != Fn::Comm_dup_with_info) return recorded;
        // With its attributes.
        real.Comm_free(made);
        return run();
    }
    const int result = outside(run);
    if (session->storing) {
        store_result(result);
        if (result == MPI_SUCCESS) store_made(*made);
    }
    return result;
}

template <class F>
int make_comm(Call call, MPI_Comm parent, MPI_Comm* made, const F& run) {
    const Inside guard;
    begin(call, MPI_PROC_NULL, parent);
    TracedCollective traced(parent, Shape::all, MPI_PROC_NULL);
    const int result = made_by(call.fn, parent, made, run);
    traced.returned(result);
    if (result != MPI_SUCCESS) return result;
    if (*made != MPI_COMM_NULL) {
        static_cast<void>(comm_number(*made));
        watch_early(*made);
        if (session->tracer) session->tracer->made(parent, *made);
    }
    return result;
}

// Those who aren't in the group don't call it.
template <class F>
int make_group_comm(Call call, MPI_Comm parent, MPI_Comm* made, const F& run) {
    const Inside guard;
    begin(call, MPI_PROC_NULL, parent);
    const int result = made_by(call.fn, parent, made, run);
    if (result != MPI_SUCCESS || *made == MPI_COMM_NULL) return result;
    static_cast<void>(comm_number(*made));
    watch_early(*made);
    if (session->tracer) {
        session->tracer->made(parent, *made);
        session->tracer->collective(*made, Shape::all, MPI_PROC_NULL);
    }
    return result;
}

// What a call that is no event makes or frees, for the trace. Of several threads it isn't followed: their
// calls have no order.
template <class Handle, class F>
int makes(const Call& call, causality::Leaked what, const Handle* made, const F& run) {
    const Within guard;
    const int result = run();
    if (result == MPI_SUCCESS && session->tracer && !threaded())
        session->tracer->made(call, what, bits(*made));
    return result;
}

template <class Handle, class F>
int frees(causality::Leaked what, const Handle* freed, const F& run) {
    const Within guard;
    if (session->tracer && !threaded()) session->tracer->freed(what, bits(*freed));
    return run();
}

// It may wait for other threads' calls, and is no step.
template <class F>
int passed_through(const F& run) {
    if (threaded()) {
        const Within guard;
        return run();
    }
    const Inside guard(Inside::no_event);
    return run();
}

template <class F>
int noted(Call call, const char* what, const F& run) {
    note(call, what, false);
    const InNoEvent here(call.fn);
    return passed_through(run);
}

template <class F>
int refused(Call call, const char* what, const F& run) {
    note(call, what, true);
    const InNoEvent here(call.fn);
    return passed_through(run);
}

}  // namespace cairn::mpi
