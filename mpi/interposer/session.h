// What the wrappers of one process share: made by MPI_Init, gone with MPI_Finalize.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "mpi/interposer/induced.h"
#include "mpi/interposer/mpi_library.h"
#include "mpi/interposer/requests.h"
#include "mpi/interposer/stand.h"
#include "mpi/interposer/trace.h"
#include "mpi/record/matches.h"
#include "mpi/record/predictor.h"
#include "mpi/record/standing.h"

namespace cairn::mpi {

// The program is between MPI_Init and MPI_Finalize and something is to be done.
extern bool live;
// Within a wrapper: what an MPI calls of its own functions isn't the program's.
extern thread_local int inside;
// The program has called MPI_Wtime.
extern bool asked_for_time;
// Looks for messages since the program's last call that found none.
extern thread_local unsigned idle;

enum class Job { nothing, record, replay };

// A call as the record names it.
struct KnownCall {
    std::uint32_t site;  // number of the place in the program
    std::int32_t peer;   // rank in the communicator, or negative: any, nobody
    std::uint32_t comm;  // number of the communicator, by first use
};

// A place in the program: which function is called, from where.
struct Site {
    Fn fn = Fn::count_;
    std::uint32_t module = 0;
    std::uint64_t offset = 0;
    bool operator==(const Site&) const = default;
};

class Calls {
  public:
    // The number of this call, by first use.
    std::uint32_t number(const Call& call, int peer, std::uint32_t comm, bool& is_new) {
        const std::uint64_t key =
            mix(reinterpret_cast<std::uintptr_t>(call.at) ^ static_cast<std::uint64_t>(call.fn) << 48,
                static_cast<std::uint64_t>(static_cast<std::uint32_t>(peer)) << 32 | comm);
        const auto [at, added] = numbers_.try_emplace(key, static_cast<std::uint32_t>(calls_.size()));
        is_new = added;
        return at->second;
    }
    // The place of a call; `is_new`, `module_is_new`: it has just been given its number.
    std::uint32_t site(const Call& call, bool& is_new, bool& module_is_new);
    void add(const KnownCall& call) { calls_.push_back(call); }
    [[nodiscard]] std::size_t sites() const { return sites_.size(); }
    [[nodiscard]] std::size_t modules() const { return modules_.size(); }
    [[nodiscard]] const KnownCall& call(std::uint32_t number) const { return calls_[number]; }
    [[nodiscard]] std::size_t size() const { return calls_.size(); }
    [[nodiscard]] const Site& site(std::uint32_t number) const { return sites_[number]; }
    [[nodiscard]] const std::string& module(std::uint32_t number) const { return modules_[number]; }

  private:
    std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
    std::unordered_map<std::uint64_t, std::uint32_t> site_numbers_;
    std::vector<KnownCall> calls_;
    std::vector<Site> sites_;
    std::vector<std::string> modules_;
};

// What a rank that runs alone is in, for those who look at it.
struct LastCall {
    Fn fn = Fn::count_;
    void* at = nullptr;           // where the program makes it
    const void* frame = nullptr;  // of the wrapper
    int peer = MPI_PROC_NULL;     // to whom, or from whom
    MPI_Comm comm = MPI_COMM_NULL;
    bool collective = false;
};

struct Session {
    Job job = Job::nothing;
    bool contents = false;
    bool threaded = false;   // threads.h
    bool clock = false;      // MPI_Wtime is recorded, or known from the record
    std::uint64_t told = 0;  // the bits of what it said last
    bool storing = false;    // recording with contents
    bool alone = false;      // replaying without the other ranks: contents.h
    LastCall last;
    std::string folder;
    int rank = 0, size = 1;

    Calls calls;
    Predictor predictor;
    std::uint64_t order = 0;  // hash of it
    std::uint64_t events = 0;
    std::uint64_t said = 0;  // numbers that were recorded or replayed because they could have been others

    Requests requests;
    std::uint64_t receives = 0;  // posted
    std::uint64_t wilds = 0;     // of them with any source or any tag

    // To record, and in a replay that may be left.
    std::unique_ptr<RecordWriter> writer;
    MatchWriter match_writer;
    std::uint64_t last_cancelled = 0;
    std::vector<MPI_Request> shadows;  // requests that the program gave up and whose message isn't known yet

    // To replay.
    std::unique_ptr<RecordReader> reader;
    MatchReader match_reader;
    std::vector<std::uint64_t> cancelled;  // posts, ascending
    std::int64_t read_cancelled = 0;       // the last of them in the record
    std::uint64_t falses = 0;              // still to say before the next yes
    bool falses_known = false;
    std::uint64_t hits = 0;
    bool hits_known = false;
    MPI_Comm own = MPI_COMM_NULL;  // of this process alone: for receives that get nothing
    unsigned polls = 0;

    std::vector<std::string> noted;
    std::unique_ptr<Tracer> tracer;
    std::unique_ptr<Induced> induced;  // record --checkpoints

    // A breakpoint (breakpoint.h): stop after so many events of the trace; `enter`: the next is a collective
    // that others have left, which is entered and not left.
    bool breaking = false, enter = false;
    // Where it says that it stands, in a folder "stopped" below: the record's, or that of a debugger that
    // moves the whole job, and speaks for it (breakpoint.h).
    std::string stands_in;
    bool debugged = false;
    // It has stood where it was to stop, and goes on up to its next event, since others may wait for it in
    // calls that are none.
    bool late = false;
    Whereabouts* whereabouts = nullptr;
    bool checking = false;  // check_place.h
    std::uint64_t stop = 0;
    unsigned stops = 0;                                // breakpoints come to
    std::vector<std::pair<MPI_Request, void*>> aside;  // copied sends
};
extern Session* session;

// Several threads: each call of a wrapper begins with a step of its thread's (threads.h).
void enter();
void leave();
void end_of_threads(RecordWriter& out);
[[nodiscard]] Predictor& predictor_of_thread();
inline Predictor& predictor() {
    return session->threaded ? predictor_of_thread() : session->predictor;
}

void stop_if_due();
void behind_alone();
void check_before(const Call& call);
void check_behind();
void stop_inside_if_due();
void stop_if_late();

// Guards the MPI's own calls of its functions, and counts the event as returned.
class Inside {
  public:
    Inside() {
        ++inside;
        idle = 0;
        if (session->threaded) enter();
    }
    // For what the program asks that is no event, but is recorded.
    enum NoEvent { no_event };
    explicit Inside(NoEvent) : event_(false) {
        ++inside;
        if (session->threaded) enter();
    }
    ~Inside() {
        --inside;
        if (!event_) {
            if (session->threaded) leave();
            return;
        }
        if (session->tracer) session->tracer->end();
        if (session->whereabouts != nullptr) session->whereabouts->position = session->tracer->events();
        if (session->induced) session->induced->behind_call();
        if (session->breaking) stop_if_due();
        if (session->alone) behind_alone();
        if (session->checking) check_behind();
        if (session->writer) session->writer->end();
        if (session->threaded) leave();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

  private:
    bool event_ = true;
};

// Only guards: for calls that are no events.
class Within {
  public:
    Within() { ++inside; }
    ~Within() { --inside; }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;
};

// Each dependent event begins with this: counts it, records it or holds it against the record.
void begin(const Call& call, int peer, MPI_Comm comm, int tag = 0);
// What an event came to that could have come to something else, for the predictor and the order's hash.
inline void came_to(std::uint64_t outcome) {
    session->order = mix(session->order, outcome);
    predictor().came_to(outcome);
}

[[nodiscard]] std::uint32_t comm_number(MPI_Comm comm);
void comm_gone(MPI_Comm comm);

// Which posts were cancelled, as far as the record says so and it isn't known yet.
void read_cancelled();

// MPI_Init and MPI_Finalize: startup.cpp.
void start(int level);
void finish();

// Prints "cairn mpi: rank 2: ..." to stderr.
void say(const std::string& text);
// The program departs from the record: says so and ends the job (or waits for a debugger).
[[noreturn]] void depart(const std::string& expected, const std::string& happened);
// The record ends here: waits for the end of the job.
[[noreturn]] void record_ends();
// Without the other ranks there is no way on: a debugger is given the process, else it ends.
[[noreturn]] void stop_alone();
void check_end();
// Keeps the MPI moving until the job is ended by somebody else, or a debugger moves this process.
[[noreturn]] void wait_here();
// For two milliseconds.
void keep_moving();

// "MPI_Recv from 2 at solver.c:88 (relax)".
[[nodiscard]] std::string describe(const KnownCall& call);
[[nodiscard]] std::string describe(const Site& site, const std::string& module, int peer, std::uint32_t comm);
// "solver.c:88 (relax)", or "solver+0x1234" without debug information.
[[nodiscard]] std::string place_of(const std::string& module, std::uint64_t offset);

// Where the program makes this call, which may be behind the MPI's Fortran library.
[[nodiscard]] void* caller(const Call& call);
[[nodiscard]] causality::Place locate(void* at);

void let_others_run();

}  // namespace cairn::mpi
