// From MPI_Init to MPI_Finalize.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "mpi/debug/wire.h"
#include "mpi/interposer/breakpoint.h"
#include "mpi/interposer/check_place.h"
#include "mpi/interposer/early.h"
#include "mpi/interposer/handlers.h"
#include "mpi/interposer/outcomes.h"
#include "mpi/record/heard.h"

namespace cairn::mpi {

Real real;
double (*real_wtime)() = nullptr;
bool live = false;
bool asked_for_time = false;
thread_local int inside __attribute__((tls_model("initial-exec"))) = 0;
thread_local unsigned idle __attribute__((tls_model("initial-exec"))) = 0;
Session* session = nullptr;

namespace {

// Before the program's first instruction: the MPI's own functions. By its library's name, since our own come
// first otherwise.
__attribute__((constructor)) void find_real() {
    void* library = ::dlopen(library_name, RTLD_NOW | RTLD_NOLOAD);
    const auto find = [&](const char* name) {
        void* found = library != nullptr ? ::dlsym(library, name) : nullptr;
        if (found != nullptr) return found;
        std::fprintf(stderr, "cairn mpi: %s has no %s: another version than this cairn was built for\n",
                     library_name, name);
        std::abort();
    };
#define REAL(name) real.name = reinterpret_cast<decltype(real.name)>(find("PMPI_" #name));
#include "real.inc"
#undef REAL
    real_wtime = reinterpret_cast<double (*)()>(find("PMPI_Wtime"));
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

std::string own_program() {
    char path[4096];
    const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
    return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : std::string();
}

std::string own_arguments() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), {});
    while (!text.empty() && text.back() == '\0') text.pop_back();
    std::replace(text.begin(), text.end(), '\0', ' ');
    return text.substr(0, 4096);
}

Result<Identity> own_identity() {
    Identity identity;
    identity.rank = session->rank;
    identity.size = session->size;
    identity.mpi = flavour;
    identity.program = own_program();
    auto build = TRY(build_of(identity.program));
    identity.build = build;
    identity.arguments = own_arguments();
    return identity;
}

// Whether it went well everywhere; who failed has said why.
bool everywhere(bool here) {
    int mine = here ? 1 : 0, all = 0;
    ::PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all != 0;
}

// This is the first process that has this to say.
bool first_to_say(const std::string& text) {
    const Session& s = *session;
    const unsigned long long mine = text.empty() ? 0 : hash_of(text.data(), text.size());
    std::vector<unsigned long long> all(static_cast<std::size_t>(s.alone ? 1 : s.size));
    ::PMPI_Allgather(&mine, 1, MPI_UNSIGNED_LONG_LONG, all.data(), 1, MPI_UNSIGNED_LONG_LONG, MPI_COMM_WORLD);
    if (text.empty()) return false;
    return s.alone || std::find(all.begin(), all.begin() + s.rank, mine) == all.begin() + s.rank;
}

Result<std::unique_ptr<RecordWriter>> new_record(const std::string& folder) {
    const Session& s = *session;
    std::uint64_t job = 0;
    if (s.rank == 0 && ::getrandom(&job, sizeof job, 0) != sizeof job)
        job = static_cast<std::uint64_t>(::getpid());
    ::PMPI_Bcast(&job, static_cast<int>(sizeof job), MPI_BYTE, 0, MPI_COMM_WORLD);
    auto identity = TRY(own_identity());
    identity.job = job;
    identity.contents = s.contents;
    identity.clock = s.clock;
    identity.threads = s.threaded;
    return RecordWriter::create(folder, identity);
}

void start_recording() {
    Session& s = *session;
    auto writer = new_record(s.folder);
    if (first_to_say(writer ? "" : writer.error().what)) say("not recorded: " + writer.error().what);
    if (!everywhere(writer.has_value())) {
        if (writer) {
            ::unlink(record_path(s.folder, s.rank).c_str());
            ::unlink(tail_path(s.folder, s.rank).c_str());
        }
        if (s.rank == 0) say("the program goes on without being recorded");
        return;
    }
    s.writer = std::move(*writer);
    s.job = Job::record;
    s.storing = s.contents;
}

Result<> open_record() {
    Session& s = *session;
    auto reader = TRY(RecordReader::open(s.folder, s.rank));
    s.reader = std::move(reader);
    const Identity& recorded = s.reader->identity();
    if (s.alone && !recorded.contents)
        return fail_code(ExitCode::refused,
                         "{} has no contents, which a rank needs to run alone: record it with --contents",
                         s.folder);
    if (s.alone) s.size = recorded.size;
    s.clock = recorded.clock;
    s.threaded = recorded.threads;
    if (recorded.size != s.size)
        return fail_code(ExitCode::refused, "{} is a record of {} ranks; these are {}. Start it with -n {}",
                         s.folder, recorded.size, s.size, recorded.size);
    if (recorded.mpi != flavour)
        return fail_code(ExitCode::refused, "{} was recorded with {}; this is {}", s.folder, recorded.mpi,
                         flavour);
    const auto here = TRY(own_identity());
    if (recorded.build != here.build)
        return fail_code(ExitCode::refused,
                         "{} is a record of another program: {} (build {}); this is {} (build {})", s.folder,
                         recorded.program, recorded.build, here.program, here.build);
    if (s.reader->beginning())
        return fail_code(
            ExitCode::refused,
            "{}: what rank {} received before event {} has been removed (cairn mpi trim); `cairn "
            "mpi debug` begins there",
            s.folder, s.rank, s.reader->beginning()->event);
    read_cancelled();
    return {};
}

}  // namespace

void read_cancelled() {
    Session& s = *session;
    while (const auto step = s.reader->next(Column::cancelled)) {
        s.read_cancelled += unzigzag(*step);
        s.cancelled.push_back(static_cast<std::uint64_t>(s.read_cancelled));
    }
    std::sort(s.cancelled.begin(), s.cancelled.end());
}

namespace {

void start_replay() {
    Session& s = *session;
    const auto opened = open_record();
    if (first_to_say(opened ? "" : opened.error().what)) say("no replay: " + opened.error().what);
    int code = opened ? 0 : static_cast<int>(opened.error().code), worst = 0;
    ::PMPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    const unsigned long long job = opened ? s.reader->identity().job : 0;
    unsigned long long first = job;
    ::PMPI_Bcast(&first, 1, MPI_UNSIGNED_LONG_LONG, 0, MPI_COMM_WORLD);
    if (worst == 0 && first != job) {
        say(fmt::format("no replay: the files of ranks 0 and {} in {} are of two records", s.rank, s.folder));
        code = static_cast<int>(ExitCode::damaged);
    }
    int last = 0;
    code = std::max(code, worst);
    ::PMPI_Allreduce(&code, &last, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (last != 0) {
        // Nobody has begun: end in order, without the MPI's talk of an abort.
        wait_until_heard();
        real.Finalize();
        ::_exit(last);
    }
    ::PMPI_Comm_dup(MPI_COMM_SELF, &s.own);
    s.job = Job::replay;
    if (std::getenv(debug::socket_variable) != nullptr) return;  // the debugger has said it
    for (const std::string& remark : s.reader->remarks()) say("the record: " + remark);
}

void start_trace(const std::string& folder) {
    auto tracer = Tracer::create(fmt::format("{}/trace.{}", folder, session->rank));
    if (!tracer) say("not traced: " + tracer.error().what);
    if (everywhere(tracer.has_value())) session->tracer = std::move(*tracer);
}

void count_events() {
    if (auto counting = Tracer::create("")) session->tracer = std::move(*counting);
}

// Under a debugger of the whole job, which may leave the record.
void start_moving() {
    Session& s = *session;
    count_events();
    if (s.threaded || s.clock) {
        if (s.whereabouts != nullptr) s.whereabouts->bound = 1;
        return;
    }
    auto writer = new_record(s.stands_in + "/left");
    if (!writer) say("can't be left: " + writer.error().what);
    if (everywhere(writer.has_value())) s.writer = std::move(*writer);
}

// Under a debugger its events are counted, and with a trace written.
void start_alone() {
    if (session->job != Job::replay || !session->alone) return;
    if (!session->tracer && std::getenv(debug::socket_variable) != nullptr) count_events();
}

void start_checkpoints(const std::string& wish) {
    auto begun = Induced::begin(wish);
    if (!begun) say("no checkpoints: " + begun.error().what);
    if (begun) session->induced = std::move(*begun);
}

void forget_in_child() {
    if (session != nullptr && session->writer) session->writer->forget();
    live = answering = false;
}

// Which messages requests got that the program gave up.
void look_after_shadows() {
    Session& s = *session;
    for (MPI_Request& shadow : s.shadows) {
        Posted* posted = s.requests.find(shadow);
        if (posted == nullptr) continue;
        int flag = 0;
        MPI_Status status;
        const Posted kept = *posted;
        MPI_Request handle = shadow;
        if (real.Test(&handle, &flag, &status) != MPI_SUCCESS || flag == 0) {
            real.Request_free(&shadow);
            continue;
        }
        if (writing()) complete_receive(kept, status, false);
        if (s.tracer) s.tracer->closed(kept.key, status);
        s.requests.erase(kept.key);
        if (handle != MPI_REQUEST_NULL) real.Request_free(&handle);
    }
    s.shadows.clear();
}

// The order of events as in the record, or not.
void finish_alone() {
    const Session& s = *session;
    const std::uint64_t recorded = fed_number();
    if (recorded != s.order)
        depart(fmt::format("order {:016x}", recorded), fmt::format("order {:016x}", s.order));
    if (standing_alone) return;
    std::fprintf(stderr, "cairn mpi: replayed rank %d of %d alone, %llu events; order %016llx, as recorded\n",
                 s.rank, s.size, static_cast<unsigned long long>(s.events),
                 static_cast<unsigned long long>(s.order));
}

}  // namespace

void start(int level) {
    if (session != nullptr) return;
    const std::string job = variable("CAIRN_MPI");
    if (job.empty()) return;
    // Processes that were spawned are a job of their own, with the environment of this one.
    MPI_Comm parent = MPI_COMM_NULL;
    if (::PMPI_Comm_get_parent(&parent) == MPI_SUCCESS && parent != MPI_COMM_NULL) return;
    session = new Session;
    Session& s = *session;
    ::PMPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    ::PMPI_Comm_size(MPI_COMM_WORLD, &s.size);
    s.folder = variable("CAIRN_MPI_DIR");
    if (const std::string alone = variable("CAIRN_MPI_ALONE"); !alone.empty() && job == "replay") {
        if (s.size != 1) {
            say("a rank that is replayed alone is started without mpiexec");
            ::_exit(static_cast<int>(ExitCode::usage));
        }
        s.alone = true;
        s.rank = std::atoi(alone.c_str());
    }
    s.contents = !variable("CAIRN_MPI_CONTENTS").empty();
    // Not of a process that is to be run alone, and not where places are looked at.
    s.threaded =
        level >= MPI_THREAD_SERIALIZED && !s.contents && !s.alone && variable("CAIRN_MPI_PLACE").empty();
    s.clock = !variable("CAIRN_MPI_CLOCK").empty() && job == "record";
    ++inside;
    if (job == "record") start_recording();
    if (job == "replay") start_replay();
    if (const std::string folder = variable("CAIRN_MPI_TRACE"); !folder.empty()) start_trace(folder);
    if (const std::string wish = variable("CAIRN_MPI_CHECKPOINTS");
        !wish.empty() && s.tracer && s.job == Job::record)
        start_checkpoints(wish);
    if (const std::string place = variable("CAIRN_MPI_PLACE"); !place.empty() && s.tracer) {
        s.folder = variable("CAIRN_MPI_TRACE");
        start_check(place);
        s.checking = true;
    }
    if (const std::string stops = variable("CAIRN_MPI_STOP"); !stops.empty() && s.job == Job::replay) {
        read_stop(stops);
        if (s.debugged)
            start_moving();
        else
            start_trace(s.folder + "/stopped");
        if (s.tracer) stop_if_due();
    }
    start_alone();
    static_cast<void>(comm_number(MPI_COMM_WORLD));
    static_cast<void>(comm_number(MPI_COMM_SELF));
    watch_early(MPI_COMM_WORLD);
    ::pthread_atfork(nullptr, nullptr, forget_in_child);
    live = s.job != Job::nothing || s.tracer;
    answering = s.storing || s.alone;
    start_standing();
    --inside;
}

void finish() {
    Session& s = *session;
    live = answering = false;
    if (s.alone) {
        finish_alone();
        if (s.tracer) s.tracer->close();
        if (standing_alone) stand_at_end();
        return;
    }
    if (s.storing) store_number(s.order);
    if (s.induced) s.induced->finish();
    if (!s.aside.empty()) finish_sends();
    if (s.checking) end_check();
    look_after_shadows();
    if (s.tracer) s.tracer->close();
    if (s.job == Job::nothing) return;
    const bool recorded = s.job == Job::record;
    if (recorded) {
        end_of_threads(*s.writer);
        s.writer->put(Column::order, s.order);
        s.writer->close();
        if (!s.writer->failure().empty())
            say(fmt::format("the record is of no use behind this point: {}", s.writer->failure()));
    }
    unsigned long long mine[3] = {s.events, s.said,
                                  recorded ? s.writer->bytes_written() : s.reader->file_bytes()};
    unsigned long long sums[3] = {};
    ::PMPI_Reduce(mine, sums, 3, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    std::vector<unsigned long long> orders(static_cast<std::size_t>(s.size));
    const unsigned long long order = s.order;
    ::PMPI_Gather(&order, 1, MPI_UNSIGNED_LONG_LONG, orders.data(), 1, MPI_UNSIGNED_LONG_LONG, 0,
                  MPI_COMM_WORLD);
    if (s.rank != 0) return;
    std::uint64_t all = 0;
    for (const unsigned long long each : orders) all = mix(all, each);
    std::fprintf(stderr,
                 "cairn mpi: %s %d ranks, %llu events, %llu of them by chance, %llu bytes; order %016llx\n",
                 recorded ? "recorded" : "replayed", s.size, sums[0], sums[1], sums[2],
                 static_cast<unsigned long long>(all));
}

int on_Init(Call, int* argc, char*** argv) {
    ++inside;
    const int result = real.Init(argc, argv);
    --inside;
    if (result == MPI_SUCCESS && inside == 0) start(MPI_THREAD_SINGLE);
    return result;
}

// A process that is to be run alone has its contents in one row, whoever received them, and the calls of
// several threads at a time have no order then.
int on_Init_thread(Call, int* argc, char*** argv, int required, int* provided) {
    const bool ours = !variable("CAIRN_MPI").empty();
    const bool in_turn = variable("CAIRN_MPI_CONTENTS").empty() && variable("CAIRN_MPI_ALONE").empty() &&
                         variable("CAIRN_MPI_PLACE").empty();
    const bool less = ours && !in_turn && required > MPI_THREAD_SERIALIZED;
    ++inside;
    const int result = real.Init_thread(argc, argv, less ? MPI_THREAD_SERIALIZED : required, provided);
    --inside;
    if (less && result == MPI_SUCCESS) *provided = std::min<int>(*provided, MPI_THREAD_SERIALIZED);
    if (result == MPI_SUCCESS && inside == 0) start(*provided);
    if (session != nullptr && session->rank == 0 && less)
        say("the program asks for MPI_THREAD_MULTIPLE and gets MPI_THREAD_SERIALIZED: calls of several "
            "threads at a time have no order with --contents, and where places are checked");
    return result;
}

int on_Finalize(Call call) {
    ++inside;
    if (session->threaded) enter();
    begin(call, MPI_PROC_NULL, MPI_COMM_WORLD);
    if (session->tracer) session->tracer->end();
    if (session->breaking) stop_if_due();
    if (writing()) session->writer->end();
    finish();
    if (session->threaded) leave();
    const int result = real.Finalize();
    --inside;
    return result;
}

int on_Abort(Call call, MPI_Comm comm, int code) {
    const Inside guard;
    begin(call, MPI_PROC_NULL, MPI_COMM_WORLD);
    return real.Abort(comm, code);
}

}  // namespace cairn::mpi
