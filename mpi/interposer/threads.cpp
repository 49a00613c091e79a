#include "mpi/interposer/threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <new>

#include "mpi/interposer/outcomes.h"

namespace cairn::mpi {

struct Thread {
    std::uint64_t birth = 0, children = 0;
    std::uint64_t number = 0;  // recording: 1 and up, 0 before its first step
    Predictor predictor;
    std::condition_variable turn;
};

namespace {

thread_local Thread* own_thread __attribute__((tls_model("initial-exec"))) = nullptr;

std::mutex step_lock;
std::atomic<int> waiting{0};
thread_local unsigned tries __attribute__((tls_model("initial-exec"))) = 0;

// To record.
std::uint64_t threads = 0, running = 0, run = 0;

// To replay.
std::vector<std::uint64_t> births;  // of threads by number, from 1
std::vector<Thread*> arrived;
std::atomic<std::uint64_t> turn{0};  // the birth of whose it is; 0: it isn't known yet, or nobody's
std::uint64_t left = 0;
bool ended = false;
std::uint64_t steps = 0;
int absent = 0;  // threads in collectives

constexpr std::uint64_t first_birth = 1;
constexpr unsigned most_yields = 200;

Thread& self() {
    if (own_thread == nullptr) {
        own_thread = new Thread;
        // Not the main thread, and made by none of pthread_create: only its number tells it from others.
        own_thread->birth = ::gettid() == ::getpid() ? first_birth : 0;
    }
    return *own_thread;
}

void take_lock() {
    ++waiting;
    step_lock.lock();
    --waiting;
}

// Whoever asks again at once would have the lock each time.
void give_lock() {
    step_lock.unlock();
    if (waiting > 0) ::sched_yield();
}

void write_step() {
    Thread& me = self();
    RecordWriter& out = *session->writer;
    if (me.number == 0) {
        me.number = ++threads;
        out.put(Column::new_thread, me.birth);
    }
    if (running == me.number) {
        ++run;
        return;
    }
    if (running != 0) out.put(Column::run, run);
    running = me.number;
    run = 1;
    out.put(Column::turn, running);
}

// Whose turn it is, if that isn't known yet.
void look_up_turn() {
    if (left != 0 || ended) return;
    RecordReader& in = *session->reader;
    const auto number = in.next(Column::turn);
    ended = !number || *number == 0;
    while (!ended && births.size() < *number) {
        const auto birth = in.next(Column::new_thread);
        if (!birth) ended = true;
        if (birth) births.push_back(*birth);
    }
    if (ended) {
        turn = 0;
        return;
    }
    // The last run of a program that was killed goes on to the record's end.
    left = in.next(Column::run).value_or(~std::uint64_t{0});
    turn = births[*number - 1];
}

void tell_who_is_next() {
    look_up_turn();
    if (turn == self().birth) return;
    for (Thread* each : arrived)
        if (each->birth == turn) each->turn.notify_one();
}

void say_who_is_missing(std::uint64_t birth) {
    static bool said = false;
    if (said) return;
    said = true;
    const auto number_of = [](std::uint64_t of) {
        for (std::size_t i = 0; i < births.size(); ++i)
            if (births[i] == of) return std::to_string(i + 1);
        return std::string("that the record doesn't have");
    };
    say(
        fmt::format("event {}: thread {} waits, since the record has a call of thread {} next, which hasn't "
                    "come for 10 s. Either it computes, "
                    "or it waits for a lock of the program's: whom a lock lets in first isn't recorded",
                    session->events + 1, number_of(birth), number_of(turn)));
}

// With the lock held, and held again when it is this thread's turn.
void wait_for_turn() {
    Thread& me = self();
    if (me.number == 0) {
        me.number = 1;
        arrived.push_back(&me);
    }
    for (unsigned i = 0;; ++i) {
        look_up_turn();
        if (turn == me.birth) break;
        if (i < most_yields) {
            step_lock.unlock();
            ::sched_yield();
            take_lock();
            continue;
        }
        const std::uint64_t before = steps;
        std::unique_lock held(step_lock, std::adopt_lock);
        const auto woken = me.turn.wait_for(held, std::chrono::seconds(10));
        held.release();
        if (woken == std::cv_status::timeout && before == steps && absent == 0 && !ended)
            say_who_is_missing(me.birth);
    }
    ++steps;
    --left;
}

// One step of this thread.
void step() {
    if (session->job == Job::record) write_step();
    if (session->job == Job::replay) wait_for_turn();
}

// What the tracer knows of this thread's call stays its own while others have the lock.
class Call_kept {
  public:
    Call_kept() {
        if (session->tracer) call_ = session->tracer->call();
    }
    ~Call_kept() {
        if (session->tracer) session->tracer->call() = call_;
    }
    Call_kept(const Call_kept&) = delete;
    Call_kept& operator=(const Call_kept&) = delete;

  private:
    Tracer::InCall call_;
};

}  // namespace

void enter() {
    take_lock();
    step();
}

void leave() {
    tries = 0;
    if (session->job == Job::replay) tell_who_is_next();
    give_lock();
}

void end_of_threads(RecordWriter& out) {
    if (running != 0) out.put(Column::run, run);
    running = 0;
}

Predictor& predictor_of_thread() {
    return self().predictor;
}

void next_step() {
    if (!threaded()) return;
    const Call_kept kept;
    if (session->job == Job::replay) tell_who_is_next();
    step();
}

namespace {
thread_local Tracer::InCall* left_call __attribute__((tls_model("initial-exec"))) = nullptr;
}

void leave_for_others() {
    if (session->tracer) left_call = new Tracer::InCall(session->tracer->call());
    ++absent;
    if (session->job == Job::replay) tell_who_is_next();
    give_lock();
}

void come_back() {
    take_lock();
    --absent;
    step();
    if (left_call != nullptr) session->tracer->call() = *left_call;
    delete left_call;
    left_call = nullptr;
}

void keep_trying() {
    if (++tries < most_yields) {
        ::sched_yield();
        return;
    }
    const timespec moment{.tv_sec = 0, .tv_nsec = 1000};
    ::nanosleep(&moment, nullptr);
}

void try_later() {
    const Call_kept kept;
    step_lock.unlock();
    keep_trying();
    take_lock();
}

namespace {

// MPICH tells the error handler of MPI_COMM_WORLD of errors in what MPI_Wait completes or
// MPI_Request_get_status looks at. Not while there is one of these.
class Unheard {
  public:
    Unheard() {
        ::PMPI_Comm_get_errhandler(MPI_COMM_WORLD, &kept_);
        ::PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    }
    ~Unheard() {
        ::PMPI_Comm_set_errhandler(MPI_COMM_WORLD, kept_);
        ::PMPI_Errhandler_free(&kept_);
    }
    Unheard(const Unheard&) = delete;
    Unheard& operator=(const Unheard&) = delete;

  private:
    MPI_Errhandler kept_ = MPI_ERRHANDLER_NULL;
};

}  // namespace

bool is_through(MPI_Request request) {
    int flag = 0;
    if (request == MPI_REQUEST_NULL) return true;
#ifdef CAIRN_MPI_MPICH
    const Unheard unheard;
#endif
    return real.Request_get_status(request, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag != 0;
}

int wait_at(MPI_Comm comm, MPI_Request* request, MPI_Status* status) {
#ifdef CAIRN_MPI_MPICH
    int result = MPI_SUCCESS;
    {
        const Unheard unheard;
        result = real.Wait(request, status);
    }
    if (result != MPI_SUCCESS) ::PMPI_Comm_call_errhandler(comm, result);
    return result;
#else
    static_cast<void>(comm);
    return real.Wait(request, status);
#endif
}

int wait_for(MPI_Request* request, MPI_Status* status) {
    wait_until([&] { return is_through(*request); });
    return real.Wait(request, status);
}

namespace {

struct Start {
    void* (*function)(void*);
    void* argument;
    Thread* thread;
};

void* begin_thread(void* start_given) {
    const auto* start = static_cast<Start*>(start_given);
    const Start kept = *start;
    delete start;
    own_thread = kept.thread;
    return kept.function(kept.argument);
}

}  // namespace
}  // namespace cairn::mpi

using cairn::mpi::Thread;

// So that each thread is known by its birth. Those that the MPI makes for itself don't count.
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*function)(void*),
                                                                     void* argument) {
    using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const auto real_create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
    if (cairn::mpi::inside != 0) return real_create(thread, attributes, function, argument);
    Thread& parent = cairn::mpi::self();
    auto* made = new (std::nothrow) Thread;
    if (made != nullptr) made->birth = cairn::mpi::mix(parent.birth, ++parent.children);
    auto* start = new (std::nothrow) cairn::mpi::Start{function, argument, made};
    if (made == nullptr || start == nullptr) {
        delete made;
        delete start;
        return EAGAIN;
    }
    const int result = real_create(thread, attributes, cairn::mpi::begin_thread, start);
    if (result != 0) {
        delete start;
        delete made;
    }
    return result;
}
