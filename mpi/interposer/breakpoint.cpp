#include "mpi/interposer/breakpoint.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <utility>

#include "mpi/record/standing.h"

namespace cairn::mpi {

std::string stack_of_program() {
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

namespace {

// From here on the job goes on freely, and what it comes to is recorded behind what it has come to up to
// here. What was sent and not received is received then.
void leave_record() {
    Session& s = *session;
    s.breaking = s.enter = s.late = false;
    s.stop = ~std::uint64_t{0};
    s.job = Job::record;
}

void read_stops(const std::string& stops) {
    Session& s = *session;
    if (stops == leave_word) return leave_record();
    const char* at = stops.c_str();
    for (int rank = 0; rank < s.rank && *at != 0; ++at)
        if (*at == ',') ++rank;
    char* end = nullptr;
    s.stop = std::strtoull(at, &end, 10);
    s.enter = *end == '+';
    s.late = *end == '~';
}

std::string state_path() {
    return fmt::format("{}/stopped/state.{}", session->stands_in, session->rank);
}

bool all_stand() {
    for (int rank = 0; rank < session->size; ++rank)
        if (const Standing state = standing(session->stands_in, rank);
            !state.there || state.stop != session->stops)
            return false;
    return true;
}

int own_file = -1;  // while it stands

void lock_own_file() {
    if (own_file < 0)
        own_file = ::open(whereabouts_path(session->stands_in, session->rank).c_str(), O_RDWR | O_CLOEXEC);
    struct flock lock {};
    lock.l_type = F_WRLCK;
    if (own_file >= 0) ::fcntl(own_file, F_SETLK, &lock);
}

void say_where(const std::string& path) {
    const Session& s = *session;
    if (s.debugged) lock_own_file();
    // Under its name only when it is whole.
    const std::string temporary = path + ".new";
    {
        std::ofstream file(temporary);
        file << fmt::format("pid {}\nevent {}\nposition {}\ninside {}\nstop {}\n", ::getpid(), s.events,
                            s.tracer->events(), s.enter ? 1 : 0, s.stops)
             << stack_of_program();
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) say("can't write " + path);
}

// Until `cairn mpi continue` says how far to go now.
void stop_here() {
    Session& s = *session;
    ++s.stops;
    const std::string path = state_path();
    say_where(path);
    const std::string next = fmt::format("{}/stopped/next.{}", s.stands_in, s.stops);
    bool said = s.rank != 0 || s.debugged;
    while (::access(next.c_str(), F_OK) != 0) {
        // Whoever comes back from a checkpoint that was taken here says it again, with the id that it has
        // now.
        if (::access(path.c_str(), F_OK) != 0) say_where(path);
        if (!said && all_stand()) {
            said = true;
            const std::string text =
                fmt::format("cairn mpi: all stand at the breakpoint\n{}go on with: cairn mpi continue {}\n",
                            where_all_stand(s.folder, s.size), s.folder);
            static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
        }
        keep_moving();
    }
    ::unlink(path.c_str());
    if (own_file >= 0) ::close(std::exchange(own_file, -1));
    std::string stops;
    std::getline(std::ifstream(next), stops);
    read_stops(stops);
}

// For the debugger to read. Without it, it doesn't learn who waits in a call that is no event.
Whereabouts* map_whereabouts() {
    const std::string path = whereabouts_path(session->stands_in, session->rank);
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return nullptr;
    void* at = MAP_FAILED;
    if (::ftruncate(file, sizeof(Whereabouts)) == 0)
        at = ::mmap(nullptr, sizeof(Whereabouts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    return at == MAP_FAILED ? nullptr : ::new (at) Whereabouts;
}

}  // namespace

void read_stop(const std::string& stops) {
    Session& s = *session;
    read_stops(stops);
    s.breaking = true;
    const char* debugger = std::getenv("CAIRN_MPI_STANDS_IN");
    s.debugged = debugger != nullptr;
    s.stands_in = s.debugged ? debugger : s.folder;
    if (s.debugged) s.whereabouts = map_whereabouts();
    ::unlink(state_path().c_str());
    ::unlink(fmt::format("{}/stopped/trace.{}", s.stands_in, s.rank).c_str());
}

void stop_if_due() {
    const Session& s = *session;
    while (!s.enter && !s.late && s.tracer && s.tracer->events() >= s.stop) stop_here();
}

// At its next event it stays however often it is let go on up to it.
void stop_if_late() {
    while (session->late) {
        session->late = false;
        stop_if_due();
    }
}

InNoEvent::InNoEvent(Fn fn) {
    if (session == nullptr || session->whereabouts == nullptr) return;
    Whereabouts& here = *session->whereabouts;
    std::strncpy(here.inside, name(fn), sizeof here.inside - 1);
}

InNoEvent::~InNoEvent() {
    if (session != nullptr && session->whereabouts != nullptr) session->whereabouts->inside[0] = 0;
}

void stop_inside_if_due() {
    const Session& s = *session;
    while (s.breaking && s.enter && s.tracer->events() == s.stop) stop_here();
}

void finish_sends() {
    Session& s = *session;
    // Whoever stands at no breakpoint any more takes what was sent to it. Seconds, for sends without a
    // receive.
    for (int i = 0; i < 2000 && !s.aside.empty(); ++i) {
        std::erase_if(s.aside, [](auto& each) {
            int flag = 0;
            real.Test(&each.first, &flag, MPI_STATUS_IGNORE);
            if (flag != 0) std::free(each.second);
            return flag != 0;
        });
        if (!s.aside.empty()) keep_moving();
    }
}

int send_aside(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
    int size = 0, used = 0;
    if (const int result = ::PMPI_Pack_size(count, type, comm, &size); result != MPI_SUCCESS) return result;
    auto* copy = static_cast<char*>(std::malloc(static_cast<std::size_t>(size) + 1));
    if (const int result = ::PMPI_Pack(buf, count, type, copy, size, &used, comm); result != MPI_SUCCESS)
        return result;
    MPI_Request request = MPI_REQUEST_NULL;
    const int result = real.Isend(copy, used, MPI_PACKED, dest, tag, comm, &request);
    session->aside.emplace_back(request, copy);
    return result;
}

int finished_request(MPI_Request* request) {
    return real.Irecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, request);
}

}  // namespace cairn::mpi
