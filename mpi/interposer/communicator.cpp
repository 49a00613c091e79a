// Communicators have numbers by their first use in this process, the same in each run that takes the same
// path.
#include <algorithm>

#include "mpi/interposer/contents.h"
#include "mpi/interposer/early.h"
#include "mpi/interposer/handlers.h"

namespace cairn::mpi {
namespace {

struct Known {
    MPI_Comm comm;
    std::uint32_t number;
};
std::vector<Known> communicators;
std::uint32_t next_number = 0;
Known last_used{MPI_COMM_NULL, 0};

}  // namespace

std::uint32_t comm_number(MPI_Comm comm) {
    if (comm == last_used.comm) return last_used.number;
    for (const Known& each : communicators)
        if (each.comm == comm) {
            last_used = each;
            return each.number;
        }
    last_used = {comm, next_number++};
    communicators.push_back(last_used);
    return last_used.number;
}

void comm_gone(MPI_Comm comm) {
    last_used.comm = MPI_COMM_NULL;
    forget_early(comm);
    std::erase_if(communicators, [&](const Known& each) { return each.comm == comm; });
}

int on_Comm_idup(Call call, MPI_Comm comm, MPI_Comm* made, MPI_Request* request) {
    const Inside guard;
    begin(call, MPI_PROC_NULL, comm);
    int result = MPI_SUCCESS;
    if (session->alone) {
        result = real.Comm_dup(comm, made);
        fed_started({}, *request = placeholder());
    } else {
        result = real.Comm_idup(comm, made, request);
        if (session->storing) store_started({}, Shape::all, comm, MPI_PROC_NULL, *request);
    }
    if (session->tracer && result == MPI_SUCCESS) {
        session->tracer->collective(comm, Shape::all, MPI_PROC_NULL, *request);
        session->tracer->duplicated(comm, *made);
    }
    return result;
}

int on_Intercomm_create(Call call, MPI_Comm local, int local_leader, MPI_Comm peer, int remote_leader,
                        int tag, MPI_Comm* made) {
    const Inside guard;
    begin(call, local_leader, local, tag);
    int result = MPI_SUCCESS;
    if (session->alone) {
        result = fed_result(local);
        if (result == MPI_SUCCESS) *made = fed_made(local);
    } else {
        result = outside(
            [&] { return real.Intercomm_create(local, local_leader, peer, remote_leader, tag, made); });
    }
    if (session->storing) {
        store_result(result);
        if (result == MPI_SUCCESS) store_made(*made);
    }
    if (result != MPI_SUCCESS || *made == MPI_COMM_NULL) return result;
    static_cast<void>(comm_number(*made));
    watch_early(*made);
    if (session->tracer) {
        session->tracer->made(local, *made);
        session->tracer->collective(*made, Shape::all, MPI_PROC_NULL);
    }
    return result;
}

int on_Comm_free(Call call, MPI_Comm* comm) {
    const Inside guard;
    begin(call, MPI_PROC_NULL, *comm);
    comm_gone(*comm);
    TracedCollective traced(*comm, Shape::all, MPI_PROC_NULL);
    if (!threaded()) traced.returned(MPI_SUCCESS);
    if (session->tracer) session->tracer->gone(*comm);
    const int result = outside([&] { return real.Comm_free(comm); });
    if (threaded()) traced.returned(result);
    return result;
}

int on_Comm_disconnect(Call call, MPI_Comm* comm) {
    const Inside guard;
    begin(call, MPI_PROC_NULL, *comm);
    comm_gone(*comm);
    TracedCollective traced(*comm, Shape::all, MPI_PROC_NULL);
    if (!threaded()) traced.returned(MPI_SUCCESS);
    if (session->tracer) session->tracer->gone(*comm);
    const int result = outside([&] { return real.Comm_disconnect(comm); });
    if (threaded()) traced.returned(result);
    return result;
}

namespace {

// Said once, and kept in the record.
void remark(const char* what, const std::string& text) {
    Session& s = *session;
    if (s.job == Job::nothing) return;
    if (std::find(s.noted.begin(), s.noted.end(), what) != s.noted.end()) return;
    s.noted.emplace_back(what);
    if (s.writer) s.writer->put_bytes(Column::notes, text.data(), text.size());
    say(text);
}

}  // namespace

void note(const Call& call, const char* what, bool refused) {
    const std::string_view kind = what;
    if (session->alone && kind != "files" && kind != "generalized-requests") {
        say(fmt::format("{} at {}: {} need the other ranks, so this one can't go on alone", name(call.fn),
                        causality::describe(locate(caller(call))), what));
        stop_alone();
    }
    remark(what, fmt::format("{} ({}): {}", what, name(call.fn),
                             refused ? "can't be followed; a replay may depart"
                                     : "what it decides by chance isn't recorded"));
}

void heed(const Call& call, MPI_Info info) {
    constexpr const char* key = "mpi_assert_allow_overtaking";
    // Alone each message comes from the record, whichever it was.
    if (info == MPI_INFO_NULL || session->alone) return;
    const Within guard;
    char value[16] = {};
    int there = 0;
    if (::PMPI_Info_get(info, key, sizeof value - 1, value, &there) != MPI_SUCCESS || there == 0) return;
    const std::string_view says = value;
    if (says == "false" || says == "no" || says == "0") return;
    remark("overtaking",
           fmt::format("{} with {}: messages of one sender and tag may overtake each other there; which of "
                       "them a receive gets isn't recorded, and a replay may get another",
                       name(call.fn), key));
}

int on_Comm_set_info(Call call, MPI_Comm comm, MPI_Info info) {
    heed(call, info);
    const Within guard;
    return real.Comm_set_info(comm, info);
}

}  // namespace cairn::mpi
