#include "mpi/debug/trim.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>

#include "common/human.h"
#include "common/json_text.h"
#include "common/printable.h"
#include "mpi/debug/open.h"
#include "mpi/record/beginning.h"
#include "mpi/record/reader.h"
#include "mpi/tool/recovery_line.h"

namespace cairn::mpi::debug {
namespace {

void on_interrupt(int) {
    interrupted = 1;
}

// What a round has come to.
struct Trimmed {
    Beginnings beginnings;
    bool moved = false;
    std::uint64_t freed = 0, left = 0;  // bytes on the disk
    bool ended = false;                 // of all ranks, the program
};

std::uint64_t bytes_on_disk(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * 512 : 0;
}

// Where each rank is at the recovery line, after all have failed, in events of its program.
Result<Cut> line_of(const std::string& folder) {
    const auto c = TRY(tool::trace_with_checkpoints(folder));
    const auto failed = TRY(tool::failed_ranks("", c.processes()));
    const tool::RecoveryLine line = tool::recovery_line_of(c, failed);
    Cut cut;
    for (const tool::Standpoint& each : line.ranks) cut.push_back(each.position);
    return cut;
}

// Who can't be at the line alone has said why, or ended.
Result<Beginning> image_at(AloneWorld& world, Process rank, const RecordReader& reader) {
    History* history = TRY(world.standing(rank));
    if (history->spot() != world.spot(rank) || history->report().why != Why::there)
        return fail_code(ExitCode::refused,
                         "rank {} doesn't come to the recovery line alone: it stands behind event {}", rank,
                         history->report().event);
    CHECK_OK(history->save());
    const Report& at = history->report();
    const auto block = reader.first_block_behind(at.event);
    return Beginning{.position = history->spot().position,
                     .event = at.event,
                     .within = history->spot().within,
                     .offset = block.offset,
                     .block = block.number,
                     .removed = false};
}

// As many run at once as there are processors, since a job's ranks do so, too, and who runs behind it has to
// keep up. No more, since each has as much memory as it has in the job.
Result<> images_at_line(AloneWorld& world, const std::vector<std::unique_ptr<RecordReader>>& readers,
                        std::vector<Beginning>& beginnings) {
    std::vector<Process> moving;
    for (Process rank = 0; rank < world.ranks(); ++rank)
        if (world.spot(rank) != Spot{beginnings[rank].position, beginnings[rank].within})
            moving.push_back(rank);
    const std::size_t most = std::max(1U, std::thread::hardware_concurrency());
    for (std::size_t first = 0; first < moving.size(); first += most) {
        const auto part = std::span(moving).subspan(first, std::min(most, moving.size() - first));
        for (const Process rank : part) CHECK_OK(world.set_out(rank));
        for (const Process rank : part) {
            beginnings[rank] = TRY(image_at(world, rank, *readers[rank]));
            world.history(rank).forget();
        }
    }
    return {};
}

// What was before reads as zeroes from now on.
Result<std::uint64_t> give_back(const std::string& path, std::uint64_t from, std::uint64_t to) {
    const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file) return fail_errno("opening {}", path);
    const std::uint64_t before = bytes_on_disk(file.get());
    if (::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                    static_cast<off_t>(to - from)) != 0)
        return fail_errno("giving back the first part of {}", path);
    const std::uint64_t after = bytes_on_disk(file.get());
    return before > after ? before - after : 0;
}

// A file system that can't do it is found out before anything is done.
Result<> can_give_back(const std::string& folder) {
    const std::string path = fmt::format("{}/.hole.{}", folder, ::getpid());
    const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) return fail_errno("creating {}", path);
    ::unlink(path.c_str());
    constexpr off_t some = 64 << 10;
    if (::ftruncate(file.get(), some) == 0 &&
        ::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, some / 2) == 0)
        return {};
    return fail_errno("{}: its file system can't give back the first part of a file", folder);
}

// In this order: images that are durable, then that the record begins there, then nothing before. Who is
// killed in between leaves too much and never too little.
Result<> remove_before(Opened& opened, const std::string& folder,
                       const std::vector<std::unique_ptr<RecordReader>>& readers, Trimmed& trimmed) {
    CHECK_OK(opened.take_record());
    CHECK_OK(sync_folder(kept_path(folder)));
    CHECK_OK(write_beginnings(folder, trimmed.beginnings));
    std::vector<Spot> spots;
    for (const Beginning& each : trimmed.beginnings.ranks) spots.push_back({each.position, each.within});
    opened.images()->begin_at(std::move(spots));
    for (std::size_t rank = 0; rank < trimmed.beginnings.ranks.size(); ++rank) {
        Beginning& each = trimmed.beginnings.ranks[rank];
        const std::string path = record_path(folder, static_cast<int>(rank));
        const std::uint64_t header = readers[rank]->header_bytes();
        if (each.removed || each.offset <= header) continue;
        trimmed.freed += TRY(give_back(path, header, each.offset));
        each.removed = true;
    }
    return write_beginnings(folder, trimmed.beginnings);
}

// A rank that has gone through MPI_Finalize has no tail any more. Of a job that was killed nobody can tell.
bool job_has_ended(const std::string& folder) {
    for (int rank = 0; ::access(record_path(folder, rank).c_str(), F_OK) == 0; ++rank)
        if (::access(tail_path(folder, rank).c_str(), F_OK) == 0) return false;
    return true;
}

Result<Trimmed> trim_once(const tool::Options& options, const Show& show) {
    // First whether it has ended, then the line, then what leads there: the job may go on meanwhile.
    Trimmed done;
    done.ended = job_has_ended(options.folder);
    Cut line = TRY(line_of(options.folder));
    auto opened = TRY(Opened::open(options, show, [](const std::string&) {}));
    AloneWorld& world = opened->world();
    const Computation& program = world.moves().computation();
    done.beginnings = TRY(read_beginnings(options.folder));
    done.beginnings.job = opened->identity().job;
    done.beginnings.ranks.resize(world.ranks());
    std::vector<std::unique_ptr<RecordReader>> readers;
    for (Process rank = 0; rank < world.ranks(); ++rank) {
        if (line[rank] > program.size(rank))
            return fail_code(ExitCode::damaged,
                             "{}/trace.{} is of another run than the record: its checkpoint is behind {} "
                             "events, and the record has {}",
                             options.folder, rank, line[rank], program.size(rank));
        readers.push_back(TRY(RecordReader::open(options.folder, static_cast<int>(rank))));
    }
    line = causality::join(line, world.beginning());
    done.moved = line != world.beginning();
    if (done.moved) {
        world.assume(line);
        CHECK_OK(images_at_line(world, readers, done.beginnings.ranks));
        CHECK_OK(remove_before(*opened, options.folder, readers, done));
    }
    for (Process rank = 0; rank < world.ranks(); ++rank) {
        const std::string path = record_path(options.folder, static_cast<int>(rank));
        const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        done.left += bytes_on_disk(file.get());
    }
    return done;
}

void print(const tool::Options& options, const Trimmed& done) {
    std::string events;
    nlohmann::json all = nlohmann::json::array();
    for (const Beginning& each : done.beginnings.ranks) {
        events += fmt::format("{}{}", events.empty() ? "" : " ", each.event);
        all.push_back(each.event);
    }
    if (options.json)
        fmt::print("{}\n", json_text(nlohmann::json{{"moved", done.moved},
                                                    {"begins", all},
                                                    {"freed", done.freed},
                                                    {"left", done.left},
                                                    {"ended", done.ended}}));
    else if (done.moved)
        fmt::print("the record begins behind events {} now: {} given back, {} left\n", events,
                   human_bytes(done.freed), human_bytes(done.left));
    else
        fmt::print("the recovery line is where the record begins: nothing to remove, {} left\n",
                   human_bytes(done.left));
    std::fflush(stdout);
}

}  // namespace

Result<> trim(const tool::Options& options) {
    struct sigaction action {};
    action.sa_handler = on_interrupt;  // without SA_RESTART: what waits comes back
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    if (::access(record_path(options.folder, 0).c_str(), F_OK) != 0)
        return fail_code(ExitCode::usage,
                         "{} has no record: `cairn mpi record --checkpoints PROTOCOL --out DIR`",
                         options.folder);
    CHECK_OK(can_give_back(options.folder));
    // What the program prints, the job has printed. What goes wrong is said by the interposer.
    std::string errors;
    const Show show = [&](int rank, bool error, const std::string& text) {
        if (error && text.starts_with("cairn mpi: "))
            errors += fmt::format("rank {}: {}", rank, text.substr(11));
    };
    for (;;) {
        errors.clear();
        auto done = trim_once(options, show);
        if (interrupted != 0) return fail("interrupted: what isn't removed stays as it was");
        const bool again = options.repeat > 0;
        if (!done && (!again || !done.error().passing)) {
            done.error().what += errors.empty() ? "" : "\n" + errors.substr(0, errors.size() - 1);
            if (done.error().code == ExitCode::refused && !errors.empty() && !options.may_write)
                done.error().what +=
                    "\nHere ranks may write to no file outside the folder of --in, because the job may be "
                    "writing to it";
            return std::unexpected(std::move(done).error());
        }
        if (done)
            print(options, *done);
        else
            fmt::print(stderr, "cairn mpi: {}\n", printable_lines(done.error().what));
        if (!again || (done && done->ended)) return {};
        ::poll(nullptr, 0, static_cast<int>(options.repeat * 1000));
        if (interrupted != 0) return {};
    }
}

}  // namespace cairn::mpi::debug
