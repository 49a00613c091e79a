#include "mpi/interposer/breakpoint.h"

#include <dlfcn.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdlib>
#include <fstream>

namespace cairn::mpi {
namespace {

std::string stack() {
    struct Walk {
        const void* own;
        std::string text;
        int frames;
    } walk{nullptr, "", 0};
    Dl_info info{};
    if (::dladdr(reinterpret_cast<void*>(&stop_if_due), &info) != 0) walk.own = info.dli_fbase;
    ::_Unwind_Backtrace(
        [](_Unwind_Context* context, void* data) {
            auto& w = *static_cast<Walk*>(data);
            auto* at = reinterpret_cast<void*>(::_Unwind_GetIP(context));
            Dl_info where{};
            if (::dladdr(static_cast<char*>(at) - 1, &where) == 0 || where.dli_fbase == w.own)
                return _URC_NO_REASON;
            const std::string place = causality::describe(locate(at));
            if (++w.frames > 64 || place.find("__libc_start") != std::string::npos) return _URC_END_OF_STACK;
            w.text += fmt::format("frame {}\n", place);
            return _URC_NO_REASON;
        },
        &walk);
    return walk.text;
}

[[noreturn]] void stop_here() {
    const Session& s = *session;
    // Under its name only when it is whole.
    const std::string path = fmt::format("{}/stopped/state.{}", s.folder, s.rank), temporary = path + ".new";
    {
        std::ofstream file(temporary);
        file << fmt::format("pid {}\nevent {}\nposition {}\ninside {}\n", ::getpid(), s.events,
                            s.tracer->events(), s.enter ? 1 : 0)
             << stack();
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) say("can't write " + path);
    wait_here();
}

}  // namespace

void read_stop(const std::string& stops) {
    Session& s = *session;
    const char* at = stops.c_str();
    for (int rank = 0; rank < s.rank && *at != 0; ++at)
        if (*at == ',') ++rank;
    char* end = nullptr;
    s.stop = std::strtoull(at, &end, 10);
    s.enter = *end == '+';
    s.breaking = true;
    ::unlink(fmt::format("{}/stopped/state.{}", s.folder, s.rank).c_str());
    ::unlink(fmt::format("{}/stopped/trace.{}", s.folder, s.rank).c_str());
}

void stop_if_due() {
    const Session& s = *session;
    if (!s.enter && s.tracer && s.tracer->events() >= s.stop) stop_here();
}

void stop_inside_if_due() {
    const Session& s = *session;
    if (s.breaking && s.enter && s.tracer->events() == s.stop) stop_here();
}

int send_aside(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
    int size = 0, used = 0;
    if (const int result = ::PMPI_Pack_size(count, type, comm, &size); result != MPI_SUCCESS) return result;
    // Never given back: the process stops soon, and nobody asks whether it has been sent.
    auto* copy = static_cast<char*>(std::malloc(static_cast<std::size_t>(size) + 1));
    if (const int result = ::PMPI_Pack(buf, count, type, copy, size, &used, comm); result != MPI_SUCCESS)
        return result;
    MPI_Request request;
    return real.Isend(copy, used, MPI_PACKED, dest, tag, comm, &request);
}

int finished_request(MPI_Request* request) {
    return real.Irecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, request);
}

}  // namespace cairn::mpi
