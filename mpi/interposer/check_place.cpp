#include "mpi/interposer/check_place.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "common/fd.h"
#include "mpi/record/heard.h"

namespace cairn::mpi {
namespace {

struct Check {
    bool before = false;
    std::string at;  // as given
    std::string file, function;
    std::uint32_t line = 0;
    double patience = 10;
    MPI_Comm comm = MPI_COMM_NULL;
    std::unordered_map<std::uint64_t, bool> known;  // by address and function: is it there?
    bool here = false;                              // the call that is under way is
    long passes = 0, good = 0;
    char* standing = nullptr;  // the mapping
};
Check* check = nullptr;
constexpr std::size_t standing_size = 512;
bool is_no_place = false;

std::string standing_path(int rank) {
    return fmt::format("{}/at.{}", session->folder, rank);
}

double seconds_now() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Where the others are who haven't come.
void nobody_comes() {
    std::string text =
        fmt::format("waits for the others {} {}, in pass {}, for {} s", check->before ? "before" : "behind",
                    check->at, check->passes, check->patience);
    for (int rank = 0; rank < session->size; ++rank) {
        char where[standing_size] = {};
        const Fd fd(::open(standing_path(rank).c_str(), O_RDONLY | O_CLOEXEC));
        if (rank == session->rank || !fd || ::read(fd.get(), where, sizeof where - 1) <= 0) continue;
        text += fmt::format("\n  rank {} is in {}", rank, where);
    }
    say(text + "\n  so this is no place where all processes come in the same pass");
    wait_until_heard();
    real.Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::refused));
    ::_exit(static_cast<int>(ExitCode::refused));
}

void compare() {
    Session& s = *session;
    ++check->passes;
    MPI_Request request = MPI_REQUEST_NULL;
    real.Ibarrier(check->comm, &request);
    const double end = seconds_now() + check->patience;
    for (int there = 0; there == 0;) {
        real.Test(&request, &there, MPI_STATUS_IGNORE);
        if (there != 0) break;
        if (seconds_now() > end) nobody_comes();
        let_others_run();
    }
    const auto size = static_cast<std::size_t>(s.size);
    std::vector<unsigned long long> sent = s.tracer->sent(), to_me(size);
    const std::vector<unsigned long long>& received = s.tracer->received();
    real.Alltoall(sent.data(), 1, MPI_UNSIGNED_LONG_LONG, to_me.data(), 1, MPI_UNSIGNED_LONG_LONG,
                  check->comm);
    // Of each process the first of whose messages are missing.
    unsigned long long mine[2] = {0, s.tracer->open_requests()}, all[2] = {0, 0};
    for (std::size_t from = 0; from < size; ++from) mine[0] += to_me[from] - received[from];
    real.Allreduce(mine, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, check->comm);
    if (all[0] == 0 && all[1] == 0) {
        ++check->good;
        return;
    }
    is_no_place = true;
    for (std::size_t from = 0; from < size; ++from)
        if (to_me[from] != received[from])
            say(fmt::format("pass {} {} {}: {} messages of rank {} to this one are in transit", check->passes,
                            check->before ? "before" : "behind", check->at, to_me[from] - received[from],
                            from));
    if (mine[1] != 0)
        say(fmt::format("pass {} {} {}: {} requests are open", check->passes,
                        check->before ? "before" : "behind", check->at, mine[1]));
}

bool is_there(const Call& call) {
    const auto [found, is_new] = check->known.try_emplace(
        mix(reinterpret_cast<std::uintptr_t>(call.at), static_cast<std::uint64_t>(call.fn)), false);
    if (is_new) {
        const causality::Place where = locate(call.at);
        found->second = check->function.empty()
                            ? where.file == check->file && where.line == check->line
                            : where.function == check->function || name(call.fn) == check->function;
    }
    return found->second;
}

}  // namespace

void start_check(const std::string& what) {
    check = new Check;
    const std::size_t first = what.find(' '), second = what.find(' ', first + 1);
    check->before = what.substr(0, first) == "before";
    check->at = what.substr(first + 1, second - first - 1);
    check->patience = std::atof(what.substr(second + 1).c_str());
    const std::size_t colon = check->at.find(':');
    if (colon == std::string::npos) {
        check->function = check->at;
    } else {
        check->file = check->at.substr(0, colon);
        check->line = static_cast<std::uint32_t>(std::atoi(check->at.c_str() + colon + 1));
    }
    real.Comm_dup(MPI_COMM_WORLD, &check->comm);
    const Fd fd(::open(standing_path(session->rank).c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (fd && ::ftruncate(fd.get(), standing_size) == 0) {
        void* mapped = ::mmap(nullptr, standing_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
        if (mapped != MAP_FAILED) check->standing = static_cast<char*>(mapped);
    }
    // The program's exit code is its own unless this isn't a place.
    std::atexit([] {
        if (!is_no_place) return;
        std::fflush(nullptr);
        wait_until_heard();
        ::_exit(static_cast<int>(ExitCode::refused));
    });
}

void check_before(const Call& call) {
    if (check == nullptr) return;
    check->here = is_there(call);
    if (check->standing != nullptr) {
        causality::Place where = locate(call.at);
        where.call = name(call.fn);
        const std::string text = causality::describe(where);
        const std::size_t size = std::min(text.size(), standing_size - 1);
        text.copy(check->standing, size);
        check->standing[size] = 0;
    }
    if (check->here && check->before) compare();
}

void check_behind() {
    if (check == nullptr || !check->here || check->before) return;
    check->here = false;
    compare();
}

void end_check() {
    if (check == nullptr) return;
    ::unlink(standing_path(session->rank).c_str());
    if (check->passes == 0) {
        is_no_place = true;
        say(fmt::format("it never comes by {}", check->at));
    } else if (session->rank == 0) {
        std::fprintf(stderr, "cairn mpi: %s %s: nothing in transit and nobody waiting in %ld of %ld passes\n",
                     check->before ? "before" : "behind", check->at.c_str(), check->good, check->passes);
    }
    real.Comm_free(&check->comm);
    delete check;
    check = nullptr;
}

}  // namespace cairn::mpi
