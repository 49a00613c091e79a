// Pipes and FIFOs with what is in them.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <climits>

#include "resources/capture/table.h"
#include "resources/file/schema_identity.h"

namespace cairn::capture {
namespace {

bool reads(const schema::Object& object) {
    return (object.flags & O_ACCMODE) != O_WRONLY;
}
bool writes(const schema::Object& object) {
    return (object.flags & O_ACCMODE) != O_RDONLY;
}

std::int64_t capacity_of(const schema::Object& object) {
    const auto* fifo = object.get<schema::Fifo>();
    return fifo != nullptr ? fifo->capacity : std::get<schema::Pipe>(object.what).capacity;
}

// Copies what is in a pipe without taking it out: tee(2) into a pipe of ours, which is then read.
// One call: tee always begins at the oldest byte. Buffers are copied as they are, so that ours must have as
// many.
Result<std::vector<schema::Bytes>> peek(int from, std::int64_t capacity, bool packets) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return fail_errno("pipe2");
    const Fd ours_read(ends[0]), ours_write(ends[1]);
    if (::fcntl(ours_write.get(), F_GETPIPE_SZ) < capacity &&
        ::fcntl(ours_write.get(), F_SETPIPE_SZ, static_cast<int>(capacity)) < 0)
        return fail_errno("no room for a copy of a pipe of {} bytes (/proc/sys/fs/pipe-user-pages-soft)",
                          capacity);
    std::vector<schema::Bytes> contents;
    const ssize_t copied = ::tee(from, ours_write.get(), INT_MAX, SPLICE_F_NONBLOCK);
    if (copied < 0 && errno != EAGAIN) return fail_errno("tee");
    schema::Bytes piece(static_cast<std::size_t>(capacity));
    for (;;) {
        const ssize_t got = ::read(ours_read.get(), piece.data(), piece.size());
        if (got < 0 && errno == EAGAIN) return contents;
        if (got <= 0) return fail_errno("copy of a pipe can't be read");
        // A read ends at the end of a packet (O_DIRECT pipes).
        if (packets || contents.empty()) contents.emplace_back();
        contents.back().insert(contents.back().end(), piece.begin(), piece.begin() + got);
    }
}

// What becomes of a pipe whose other end a process outside has, a shell or a launcher most often. `input`:
// the program reads from it.
std::string outside_pipe_words(const schema::Object& object, bool input) {
    if (object.standard.known())
        return fmt::format(
            "is a pipe {} a process outside the computation, which isn't saved: after a restart the "
            "restart's "
            "own standard {} takes its place",
            input ? "from" : "to", input ? "input" : "output or error");
    return fmt::format(
        "is a pipe {} a process outside the computation (most often one that the shell or whoever launched "
        "the "
        "program left open for it): after a restart {}. If the program doesn't use it, nothing is lost; "
        "`cairn launch PROGRAM {}` closes it",
        input ? "from" : "to", input ? "reading it gives the end of file" : "writing to it gives EPIPE",
        input ? "N<&-" : "N>&-");
}

struct Ends {
    std::vector<std::int64_t> objects;
    bool reader = false, writer = false, packets = false;
};

}  // namespace

bool is_pipe(const Looked& it) {
    return it.opened(S_IFIFO);
}

Result<> describe_pipe(Table& table, const Description& found, schema::Object& object) {
    object.identity = identity_of(found.status);
    const std::int64_t capacity = ::fcntl(found.fd(), F_GETPIPE_SZ);
    object.pipe = table.pipe_of(inode_of(found.status));
    if (found.link.starts_with('/')) {
        const Located place = locate(found.link, found.status);
        object.what = schema::Fifo{capacity};
        object.path = place.path;
        object.deleted = place.deleted;
    } else {
        object.what = schema::Pipe{capacity};
    }
    return {};
}

Result<> capture_pipes(Table& table) {
    std::map<std::int64_t, Ends> pipes;
    for (const schema::Object& object : table.objects) {
        if (!object.is<schema::Pipe>() && !object.is<schema::Fifo>()) continue;
        Ends& ends = pipes[object.pipe];
        ends.objects.push_back(object.id);
        ends.reader = ends.reader || reads(object);
        ends.writer = ends.writer || writes(object);
        ends.packets = ends.packets || (object.flags & O_DIRECT);
    }
    for (const auto& [pipe, ends] : pipes) {
        const schema::Object& first = table.objects[static_cast<std::size_t>(ends.objects.front())];
        const Description& found = table.descriptions.at(first.id);
        // Without a reader (writer) among us: the kernel says whether there is one elsewhere.
        if (!ends.reader || !ends.writer) {
            pollfd ask{found.fd(), 0, 0};
            ::poll(&ask, 1, 0);
            const bool other_end_closed = (ask.revents & (ends.reader ? POLLHUP : POLLERR)) != 0;
            for (const std::int64_t id : ends.objects)
                table.objects[static_cast<std::size_t>(id)].outside = !other_end_closed;
            if (!other_end_closed && !first.is<schema::Fifo>())
                table.note("{} {}", found.who(), outside_pipe_words(first, ends.reader));
        }
        // A launcher that doesn't close what it has opened for one program before it starts the next: its
        // reading end of the one's standard output is in the other, too, who doesn't know of it.
        if (ends.reader && ends.writer && !first.is<schema::Fifo>()) {
            bool output = false, input = false;
            for (const std::int64_t id : ends.objects) {
                const schema::Object& object = table.objects[static_cast<std::size_t>(id)];
                if (!object.standard.known()) continue;
                output = output || !reads(object);
                input = input || !writes(object);
            }
            if (output && !input && held_above(table).pipes_read.contains(found.status.st_ino)) {
                for (const std::int64_t id : ends.objects) {
                    schema::Object& object = table.objects[static_cast<std::size_t>(id)];
                    object.outside = !reads(object);
                }
                table.note("{} {}", found.who(), outside_pipe_words(first, false));
                continue;
            }
        }
        // What nobody of ours can read is on its way to somebody outside, who has it already.
        for (const std::int64_t id : ends.objects) {
            schema::Object& object = table.objects[static_cast<std::size_t>(id)];
            if (!reads(object)) continue;
            const Description& end = table.descriptions.at(id);
            auto contents = peek(end.fd(), capacity_of(object), ends.packets);
            if (!contents) return std::unexpected(std::move(contents.error()).in(end.who()));
            object.contents = std::move(*contents);
            break;
        }
    }
    return {};
}

}  // namespace cairn::capture
