// Pipes and FIFOs, with what was in them.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "resources/restore/lost_folder.h"
#include "resources/restore/opening.h"

namespace cairn::restart {
namespace {

using schema::Object;

bool reads(const Object& object) {
    return (object.flags & O_ACCMODE) != O_WRONLY;
}

// A pipe led outside and was somebody's standard descriptor: the tool's own takes its place, as it does for a
// new program. What was in it can't be put in front of that, and so a pipe with contents stays one.
bool replaced(Opening& opening, const Object& end, bool has_contents) {
    return end.outside && !has_contents && opening.stand_in(end);
}

struct Pipe {
    Fd reader, writer;  // of a FIFO: one description, in `writer`, for both
};

Result<Pipe> make_pipe(const Object& first) {
    Pipe pipe;
    if (!first.is<schema::Fifo>()) {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe2");
        pipe.reader.reset(ends[0]);
        pipe.writer.reset(ends[1]);
        return pipe;
    }
    return pipe;
}

struct Fifo {
    Fd both;          // open for both, so that no open of one end waits for the other
    FoundFile found;  // what the name leads to; without a place if it has none
};

// One where it had been: with its name, if that is to lead to it.
Result<Fd> make_fifo(Opening& opening, const Object& first, const std::string& path, bool named) {
    const auto slash = path.rfind('/');
    const Fd folder = folder_of_lost(opening, path, 0755);
    if (!folder) return fail_errno("FIFO {}", path);
    const std::string own = path.substr(slash + 1);
    const std::string name = named ? own : fmt::format("{}.cairn-{}-{}", own, ::getpid(), first.id);
    if (::mkfifoat(folder.get(), name.c_str(), (first.identity.mode & 07777) | 0600) != 0)
        return fail_errno("FIFO {}", path);
    Fd both(::openat(folder.get(), name.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    const int problem = errno;
    if (!named) ::unlinkat(folder.get(), name.c_str(), 0);
    struct stat status {};
    if (both && (::fstat(both.get(), &status) != 0 || !S_ISFIFO(status.st_mode)))
        return fail("FIFO {}: {} was exchanged for something else at once", path, name);
    errno = problem;
    if (!both) return fail_errno("FIFO {}", path);
    (void)::fchmod(both.get(), first.identity.mode & 07777);
    return both;
}

Result<Fifo> open_fifo(Opening& opening, const Object& first) {
    const Access& access = opening.options.access;
    const std::string path = mapped_path(first.path, opening.options);
    Fifo fifo;
    auto found = access.find(first, path);
    const bool gone = !first.deleted && !found && found.error().number == ENOENT;
    if (first.deleted || gone) {
        const auto acting = TRY(ActingAs::begin(access.one_of(first.id)));
        auto both = TRY(make_fifo(opening, first, path, gone));
        fifo.both = std::move(both);
        if (gone) opening.note("FIFO {} is gone: made anew", path);
        return fifo;
    }
    if (!found) return std::unexpected(std::move(found.error()).in("FIFO"));
    if (!S_ISFIFO(found->status.st_mode))
        return fail_code(ExitCode::refused, "{} was a FIFO at the checkpoint, and is none now", path);
    fifo.found = std::move(*found);
    fifo.both.reset(::open(fd_path(fifo.found.place.get()).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!fifo.both) return fail_errno("FIFO {}", path);
    return fifo;
}

// Each end as those who had it may open it; before anything is written into a FIFO that isn't theirs.
Result<> open_fifo_ends(Opening& opening, const Group& ends, const Fifo& fifo) {
    for (const Object* end : ends) {
        if (opening.opened.contains(end->id)) continue;
        const int flags = reopen_flags(end->flags) | O_NONBLOCK;
        Result<Fd> opened = Fd();
        if (fifo.found.place)
            opened =
                opening.options.access.open(*end, mapped_path(end->path, opening.options), fifo.found, flags);
        else
            opened->reset(::open(fd_path(fifo.both.get()).c_str(), flags));
        if (!opened) return std::unexpected(std::move(opened.error()).in("FIFO"));
        if (!*opened) return fail_errno("FIFO {} can't be opened again", end->path);
        CHECK_OK(opening.keep(*end, std::move(*opened)));
    }
    return {};
}

Result<> fill(const Object& object, int writer) {
    const int flags = ::fcntl(writer, F_GETFL) | O_NONBLOCK;
    for (const schema::Bytes& packet : object.contents) {
        // A write of up to a page into an O_DIRECT pipe is a packet.
        const bool is_packet = object.contents.size() > 1 && packet.size() <= PIPE_BUF;
        ::fcntl(writer, F_SETFL, is_packet ? flags | O_DIRECT : flags & ~O_DIRECT);
        std::size_t done = 0;
        while (done < packet.size()) {
            const ssize_t wrote = ::write(writer, packet.data() + done, packet.size() - done);
            if (wrote < 0)
                return fail_errno("{}: what was in it ({} bytes) doesn't fit", object.path, packet.size());
            done += static_cast<std::size_t>(wrote);
        }
    }
    return {};
}

// All objects of one pipe or FIFO.
Result<> open_pipe(Opening& opening, const Group& ends) {
    const Object& first = *ends.front();
    const bool fifo = first.is<schema::Fifo>();
    const Object* full = nullptr;
    bool packets = false;
    for (const Object* end : ends) {
        if (!end->contents.empty()) full = end;
        packets = packets || (end->flags & O_DIRECT);
    }
    if (!fifo) {
        std::size_t count = 0;
        for (const Object* end : ends) count += replaced(opening, *end, full != nullptr);
        if (count == ends.size()) return {};
    }

    auto pipe = TRY(make_pipe(first));
    if (fifo) {
        auto both = TRY(open_fifo(opening, first));
        CHECK_OK(open_fifo_ends(opening, ends, both));
        pipe.writer = std::move(both.both);
    }
    const int filler = pipe.writer.get();
    const auto* named = first.get<schema::Fifo>();
    const std::int64_t capacity =
        named != nullptr ? named->capacity : std::get<schema::Pipe>(first.what).capacity;
    if (::fcntl(filler, F_GETPIPE_SZ) != capacity &&
        ::fcntl(filler, F_SETPIPE_SZ, static_cast<int>(capacity)) < 0)
        opening.note("a pipe's capacity of {} bytes can't be set ({})", capacity, std::strerror(errno));
    if (full) {
        // Who has a FIFO open outside the group has kept its contents.
        int already = 0;
        if (::ioctl(filler, FIONREAD, &already) == 0 && already == 0) {
            Object contents = *full;
            if (packets && contents.contents.size() == 1) contents.contents.emplace_back();
            CHECK_OK(fill(contents, filler));
        } else {
            opening.note("FIFO {} is not empty: what was in it at the checkpoint is not added", first.path);
        }
        if (full->outside)
            opening.note("a pipe from outside the group ends after the {} bytes that were in it",
                         full->contents.front().size());
    }

    bool reader_used = false, writer_used = false;
    for (const Object* end : ends) {
        if (opening.opened.contains(end->id)) {
            const auto fifo_end = TRY(opening.opened.lend(end->id));
            if (fifo && ::fcntl(fifo_end.get(), F_SETFL, end->flags & ~O_ASYNC) != 0)
                return fail_errno("F_SETFL of a FIFO");
            continue;
        }
        const int access = end->flags & O_ACCMODE;
        Fd opened;
        // The two descriptions that pipe2 made come first: one opened by its /proc path has O_LARGEFILE
        // besides.
        bool& used = reads(*end) ? reader_used : writer_used;
        if (access != O_RDWR && !used) {
            used = true;
            opened.reset(::fcntl((reads(*end) ? pipe.reader : pipe.writer).get(), F_DUPFD_CLOEXEC, 0));
        } else {
            opened.reset(::open(fd_path(filler).c_str(), reopen_flags(end->flags) | O_NONBLOCK));
        }
        if (!opened) return fail_errno("pipe or FIFO {} can't be opened again", end->path);
        if (::fcntl(opened.get(), F_SETFL, end->flags & ~O_ASYNC) != 0)
            return fail_errno("F_SETFL of a pipe");
        CHECK_OK(opening.keep(*end, std::move(opened)));
    }
    return {};
}

}  // namespace

Result<> open_pipes(Opening& opening) {
    const auto id_of = [](const Object& object) {
        return object.is<schema::Pipe>() || object.is<schema::Fifo>() ? object.pipe : -1;
    };
    for (const auto& [id, ends] : groups(opening.objects, id_of)) CHECK_OK(open_pipe(opening, ends));
    return {};
}

}  // namespace cairn::restart
