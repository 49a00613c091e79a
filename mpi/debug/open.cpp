#include "mpi/debug/open.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/layout.h"
#include "mpi/debug/traces.h"
#include "mpi/record/reader.h"

namespace cairn::mpi::debug {
namespace {

std::uint64_t free_memory() {
    std::ifstream file("/proc/meminfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("MemAvailable:")) return std::strtoull(line.c_str() + 13, nullptr, 10) * 1024;
    return 0;
}

// An image holds the interposer's memory, too, and what it says to the debugger.
Result<std::string> mark_of_images(const tool::Options& options, const Identity& identity,
                                   const std::string& mpi) {
    std::string library = own_library();
    library = fmt::format("{}/libcairn-mpi-{}.so", library.substr(0, library.rfind('/')), mpi);
    const std::string build = TRY(build_of(library));
    std::string mark = fmt::format("cairn mpi debug, images 1\n{}{} {}\n",
                                   TRY(mark_of(options.folder, identity.size)), identity.build, build);
    for (const std::string& word : options.command) mark += word + "\n";
    return mark;
}

Result<std::unique_ptr<Images>> images_of(const tool::Options& options, Opened::Parts& parts,
                                          const Show& show) {
    const std::string folder = options.folder + "/debug/images";
    if (options.images == 0 && ::access(folder.c_str(), F_OK) != 0) return nullptr;
    if (options.images > 0 && std::getenv("CAIRN_REGION") != nullptr)
        return fail_code(
            ExitCode::usage,
            "--images: this debugger is itself in a session of cairn's, and the ranks would be in "
            "another one: start it outside");
    const std::string mark = TRY(mark_of_images(options, parts.identity, parts.launch.mpi));
    ImageStore store(folder, mark, options.images > 0, parts.notes);
    if (store.empty() && !store.making()) return nullptr;
    constexpr double spacing = 5;  // in ways back
    return std::make_unique<Images>(
        std::move(store), parts.scratch->path(), std::uint64_t{options.images} << 20,
        spacing * parts.bounds.back_within,
        [show](const std::string& note) { show(0, true, fmt::format("cairn mpi: {}\n", note)); });
}

}  // namespace

Scratch::Scratch(int ranks) {
    char path[] = "/tmp/cairn-mpi-debug-XXXXXX";
    if (::mkdtemp(path) == nullptr) return;
    path_ = path;
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
      world_(*computation_, parts.launch, bounds_, show, images_.get()) {}

Result<std::unique_ptr<Opened>> Opened::open(const tool::Options& options, const Show& show,
                                             const std::function<void(const std::string&)>& note) {
    const auto record = TRY(RecordReader::open(options.folder, 0));
    Parts parts;
    parts.identity = record->identity();
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
    if (::access((options.folder + "/debug/of").c_str(), F_OK) != 0)
        note(fmt::format("running each of {} ranks once for its trace", identity.size));
    parts.computation = std::make_unique<const Computation>(
        TRY(trace_of(options.folder, identity, parts.launch, parts.notes)));
    const std::uint64_t memory = options.memory > 0 ? std::uint64_t{options.memory} << 20 : free_memory() / 2;
    parts.bounds = {.back_within = options.back_within,
                    .checkpoints = options.checkpoints,
                    .every = options.every,
                    .memory = memory / static_cast<std::uint64_t>(identity.size)};
    parts.images = TRY(images_of(options, parts, show));
    return std::make_unique<Opened>(std::move(parts), show);
}

}  // namespace cairn::mpi::debug
