#include "mpi/debug/open.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "common/layout.h"
#include "common/room_left.h"
#include "mpi/debug/confined.h"
#include "mpi/debug/traces.h"
#include "mpi/record/beginning.h"
#include "mpi/record/reader.h"

namespace cairn::mpi::debug {
namespace {

// Bytes; 0 where nobody tells.
std::uint64_t free_memory() {
    const auto available = available_memory();
    return available == no_limit ? 0 : static_cast<std::uint64_t>(available);
}

// An image holds the interposer's memory, too, and what it says to the debugger.
Result<std::string> mark_of_program(const tool::Options& options, const Identity& identity,
                                    const std::string& mpi) {
    std::string library = own_library();
    library = fmt::format("{}/libcairn-mpi-{}.so", library.substr(0, library.rfind('/')), mpi);
    const std::string build = TRY(build_of(library));
    std::string mark = fmt::format("{} {}\n", identity.build, build);
    for (const std::string& word : options.command) mark += word + "\n";
    return mark;
}

Result<std::string> mark_of_images(const tool::Options& options, const Identity& identity,
                                   const std::string& mpi) {
    return fmt::format("cairn mpi debug, images 1\n{}{}", TRY(mark_of(options.folder, identity.size)),
                       TRY(mark_of_program(options, identity, mpi)));
}

Result<> outside_of_sessions(const char* what) {
    if (std::getenv("CAIRN_REGION") == nullptr) return {};
    return fail_code(ExitCode::usage,
                     "{}: this process is itself in a session of cairn's, and the ranks would be in another "
                     "one: start it outside",
                     what);
}

Result<std::unique_ptr<Images>> images_of(const tool::Options& options, Opened::Parts& parts,
                                          const Show& show) {
    const std::string folder = options.folder + "/debug/images";
    if (options.images == 0 && ::access(folder.c_str(), F_OK) != 0) return nullptr;
    if (options.images > 0) CHECK_OK(outside_of_sessions("--images"));
    const std::string mark = TRY(mark_of_images(options, parts.identity, parts.launch.mpi));
    ImageStore store(folder, mark, options.images > 0, parts.notes);
    if (store.empty() && !store.making()) return nullptr;
    constexpr double spacing = 5;  // in ways back
    return std::make_unique<Images>(
        std::move(store), parts.scratch->path(), std::uint64_t{options.images} << 20,
        spacing * parts.bounds.back_within,
        [show](const std::string& note) { show(0, true, fmt::format("cairn mpi: {}\n", note)); });
}

// Of a record whose first part has been removed, or is about to be. They stay good while it grows, so their
// mark doesn't say how long it is.
Result<std::unique_ptr<Images>> kept_images_of(const tool::Options& options, Opened::Parts& parts,
                                               const Beginnings& beginnings, const Show& show) {
    const bool trims = options.verb == "trim";
    if (trims) CHECK_OK(outside_of_sessions("trim"));
    const std::string folder = kept_path(options.folder);
    const std::string mark =
        fmt::format("cairn mpi trim, images 1\n{:016x} {}\n{}", parts.identity.job, parts.identity.size,
                    TRY(mark_of_program(options, parts.identity, parts.launch.mpi)));
    std::ifstream of(folder + "/of");
    if (!beginnings.ranks.empty() && std::string((std::istreambuf_iterator<char>(of)), {}) != mark)
        return fail_code(
            ExitCode::refused,
            "the first part of {} has been removed (cairn mpi trim), and what is kept instead is of "
            "another program, other arguments or another cairn than these",
            options.folder);
    std::vector<Spot> spots;
    for (const Beginning& each : beginnings.ranks) spots.push_back({each.position, each.within});
    std::string notes;
    ImageStore store(folder, mark, trims, notes, std::move(spots));
    if (trims && !store.making())
        return fail_code(ExitCode::refused, "{} can't be trimmed: {}", options.folder, notes);
    if (!trims && options.images > 0)
        parts.notes +=
            "no images are made: of a record whose first part has been removed only those of where "
            "it begins are kept\n";
    auto images = std::make_unique<Images>(
        std::move(store), parts.scratch->path(), ~std::uint64_t{0}, 0,
        [show](const std::string& note) { show(0, true, fmt::format("cairn mpi: {}\n", note)); });
    images->only_when_asked();
    return images;
}

// As long as it is open nobody removes anything of the record (trim.cpp).
Result<Fd> hold_record(const std::string& folder) {
    const std::string path = record_path(folder, 0);
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return fail_errno("opening {}", path);
    while (::flock(file.get(), LOCK_SH) != 0) {
        // A file system without locks has nobody who could take it.
        if (errno != EINTR) break;
        if (interrupted != 0) return fail("interrupted");
    }
    return file;
}

// Where ranks run that are run while the job may still do so, and that what it writes isn't written twice, or
// cut off.
Result<> set_apart(const tool::Options& options, Opened::Parts& parts) {
    if (!options.working_folder.empty()) {
        std::string& program = parts.launch.command[0];
        std::error_code ignored;
        if (program.find('/') != std::string::npos)
            program = std::filesystem::absolute(program, ignored).string();
        parts.launch.working_folder = options.working_folder;
    }
    if (options.may_write) return {};
    if (landlock_version() == 0)
        return fail_code(
            ExitCode::refused,
            "this kernel has no Landlock (Linux 5.13), which would keep the ranks from writing to "
            "the files of the job: say --may-write if they write to none");
    parts.launch.variables.emplace_back(
        confined_variable,
        fmt::format("{}:{}:/dev:/proc{}{}", kept_path(options.folder), parts.scratch->path(),
                    options.working_folder.empty() ? "" : ":", options.working_folder));
    return {};
}

constexpr std::string_view scratch_prefix = "/tmp/cairn-mpi-debugger-";

Fd open_folder(const std::string& path) {
    return Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Whose lock is free has nobody who uses it; but a new one isn't locked yet.
void remove_left_over() {
    constexpr time_t new_for = 60;  // seconds
    std::error_code ignored;
    for (const auto& each : std::filesystem::directory_iterator("/tmp", ignored)) {
        if (!each.path().native().starts_with(scratch_prefix)) continue;
        const Fd folder = open_folder(each.path());
        struct stat status {};
        if (!folder || ::fstat(folder.get(), &status) != 0 || status.st_uid != ::geteuid()) continue;
        if (status.st_mtime + new_for < ::time(nullptr) && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0)
            std::filesystem::remove_all(each.path(), ignored);
    }
}

Cut cut_of(const Beginnings& beginnings, int ranks) {
    Cut cut(static_cast<std::size_t>(ranks));
    for (std::size_t rank = 0; rank < beginnings.ranks.size(); ++rank)
        cut[rank] = static_cast<Position>(beginnings.ranks[rank].position);
    return cut;
}

}  // namespace

Scratch::Scratch(int ranks) {
    remove_left_over();
    std::string path = std::string(scratch_prefix) + "XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return;
    path_ = path;
    held_ = open_folder(path_);
    if (held_) ::flock(held_.get(), LOCK_EX | LOCK_NB);
    for (int rank = 0; rank < ranks; ++rank) ::mkdir(fmt::format("{}/{}", path_, rank).c_str(), 0700);
}

Scratch::~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Opened::Opened(Parts parts, const Show& show)
    : scratch_(std::move(parts.scratch)),
      identity_(std::move(parts.identity)),
      bounds_(parts.bounds),
      notes_(std::move(parts.notes)),
      computation_(std::move(parts.computation)),
      images_(std::move(parts.images)),
      held_(std::move(parts.held)),
      world_(*computation_, std::move(parts.beginning), parts.launch, bounds_, show, images_.get()) {}

Result<> Opened::take_record() const {
    if (::flock(held_.get(), LOCK_EX | LOCK_NB) == 0) return {};
    if (errno != EWOULDBLOCK) return fail_errno("taking the record for oneself (flock)");
    return std::unexpected(Error{.what =
                                     "the record is open in a debugger, which may go back to its beginning: "
                                     "nothing is removed",
                                 .code = ExitCode::refused,
                                 .passing = true});
}

Result<std::unique_ptr<Opened>> Opened::open(const tool::Options& options, const Show& show,
                                             const std::function<void(const std::string&)>& note) {
    Parts parts;
    parts.held = TRY(hold_record(options.folder));
    parts.identity = TRY(RecordReader::open(options.folder, 0))->identity();
    const Beginnings beginnings = TRY(read_beginnings(options.folder));
    const bool trims = options.verb == "trim", begins_later = !beginnings.ranks.empty();
    const Identity& identity = parts.identity;
    if (!identity.contents)
        return fail_code(ExitCode::refused,
                         "{} has no contents, which ranks need to run alone: record it with --contents",
                         options.folder);
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
        if (std::getenv(name) != nullptr)
            return fail_code(ExitCode::usage,
                             "the debugger runs every rank by itself: start it without mpiexec");
    parts.scratch = std::make_unique<Scratch>(identity.size);
    parts.launch = {.job = "replay",
                    .folder = options.folder,
                    .mpi = options.mpi.empty() ? identity.mpi : options.mpi,
                    // A rank alone needs no network, and Open MPI no daemon.
                    .variables = {{"OMPI_MCA_ess_singleton_isolated", "1"},
                                  {"OMPI_MCA_btl", "self"},
                                  {"OMPI_MCA_pml", "ob1"},
                                  {openmpi_folder, parts.scratch->path()},
                                  {"UCX_TLS", "self"}},
                    .command = options.command};
    if (trims) CHECK_OK(set_apart(options, parts));
    const auto trace = [&]() -> Result<Computation> {
        if (trims || begins_later) return recorded_trace_of(options.folder, identity.size);
        if (::access((options.folder + "/debug/of").c_str(), F_OK) != 0)
            note(fmt::format("running each of {} ranks once for its trace", identity.size));
        return trace_of(options.folder, identity, parts.launch, parts.notes);
    };
    parts.computation = std::make_unique<const Computation>(TRY(trace()));
    parts.beginning = cut_of(beginnings, identity.size);
    const std::uint64_t memory = options.memory > 0 ? std::uint64_t{options.memory} << 20 : free_memory() / 2;
    parts.bounds = {.back_within = options.back_within,
                    .checkpoints = trims ? 0 : options.checkpoints,
                    .every = options.every,
                    .memory = memory / static_cast<std::uint64_t>(identity.size),
                    .make_way = trims};
    parts.images = trims || begins_later ? TRY(kept_images_of(options, parts, beginnings, show))
                                         : TRY(images_of(options, parts, show));
    return std::make_unique<Opened>(std::move(parts), show);
}

}  // namespace cairn::mpi::debug
