// POSIX message queues. One that has outlived its programs gets the contents that it had at the checkpoint.
#include <fcntl.h>
#include <mqueue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/schema/extra.h"
#include "restart/objects/other.h"

namespace cairn::restart {
namespace {

mqd_t make(const std::string& name, mq_attr& attributes) {
    return ::mq_open(name.c_str(), O_RDWR | O_NONBLOCK | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attributes);
}

// With the rights of who had it: another's queue of that name is none of his.
Result<Fd> find_or_make(const schema::Object& object, const nlohmann::json& extra, bool& was_there) {
    mq_attr wanted{};
    wanted.mq_maxmsg = schema::number<long>(extra, "messages_at_most");
    wanted.mq_msgsize = schema::number<long>(extra, "bytes_at_most");
    if (object.deleted) {
        for (int n = 0;; ++n) {
            const std::string name = fmt::format("/cairn-{}-{}", ::getpid(), n);
            Fd queue(make(name, wanted));
            if (queue) ::mq_unlink(name.c_str());
            if (queue || errno != EEXIST) return queue;
        }
    }
    if (Fd made(make(object.path, wanted)); made || errno != EEXIST) return made;
    was_there = true;
    return Fd(::mq_open(object.path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
}

// Messages that were sent to it after the checkpoint have never been.
Result<> empty(const schema::Object& object, const nlohmann::json& extra, int queue) {
    const auto most = schema::number<long>(extra, "messages_at_most"),
               longest = schema::number<long>(extra, "bytes_at_most");
    mq_attr has{};
    if (::mq_getattr(queue, &has) != 0) return fail_errno("{}", object.path);
    if (has.mq_maxmsg != most || has.mq_msgsize != longest)
        return fail_code(
            ExitCode::refused,
            "the message queue {} is another one by now, of {} messages of {} bytes: remove it (rm "
            "/dev/mqueue{})",
            object.path, has.mq_maxmsg, has.mq_msgsize, object.path);
    std::vector<char> buffer(static_cast<std::size_t>(has.mq_msgsize));
    while (::mq_receive(queue, buffer.data(), buffer.size(), nullptr) >= 0) {
    }
    return {};
}

// By root's rights only what it was: somebody had it whom it doesn't belong to.
Fd the_very_queue(const schema::Object& object, std::uint64_t inode) {
    Fd queue(::mq_open(object.path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    if (!queue || ::fstat(queue.get(), &status) != 0 || status.st_ino != inode) {
        errno = EACCES;
        return {};
    }
    return queue;
}

Result<> fill(int queue, const nlohmann::json& extra) {
    const auto messages = extra.find("messages");
    if (messages == extra.end() || !messages->is_array()) return {};
    for (const auto& message : *messages) {
        const std::string text = schema::bytes(message, "text");
        if (::mq_send(queue, text.data(), text.size(), schema::number<unsigned>(message, "priority")) != 0)
            return fail_errno("a message of {} bytes", text.size());
    }
    return {};
}

}  // namespace

Result<Fd> open_mqueue(Opening& opening, const schema::Object& object) {
    auto extra = TRY(schema::unpack(object.extra));
    const int flags = (object.flags & (O_ACCMODE | O_NONBLOCK)) | O_CLOEXEC;
    const auto queue = schema::number<std::uint64_t>(extra, "queue");
    // The same queue, opened more than once.
    for (const auto& other : opening.objects.objects) {
        if (other.id >= object.id || other.type != "mqueue") continue;
        auto others = schema::unpack(other.extra);
        if (!others || schema::number<std::uint64_t>(*others, "queue") != queue) continue;
        const auto first = TRY(opening.opened.lend(other.id));
        Fd again(::open(fd_path(first.get()).c_str(), flags));
        if (!again) return fail_errno("the message queue {}", object.path);
        return again;
    }
    const Access& access = opening.options.access;
    const auto user = schema::number<uid_t>(extra, "uid");
    bool was_there = false;
    Result<Fd> made = Fd();
    {
        const auto acting = TRY(ActingAs::begin(access.one_of(object.id, user)));
        made = find_or_make(object, extra, was_there);
    }
    if (!made) return made;
    if (!*made && was_there && access.doubt().empty()) made = the_very_queue(object, queue);
    if (!made) return made;
    if (!*made)
        return fail_errno(
            "the message queue {} can't be had again ({})", object.path,
            was_there ? "it is another user's by now: remove it, rm /dev/mqueue/NAME" : "ulimit -q?");
    if (was_there) CHECK_OK(empty(object, extra, made->get()));
    CHECK_OK(fill(made->get(), extra));
    if (!was_there && ::geteuid() == 0 &&
        ::fchown(made->get(), schema::number<uid_t>(extra, "uid"), schema::number<gid_t>(extra, "gid")) != 0)
        opening.note("the message queue {} can't be given to user {}", object.path,
                     schema::number<uid_t>(extra, "uid"));
    if (!was_there) ::fchmod(made->get(), schema::number<mode_t>(extra, "mode"));
    Fd as_it_was(::open(fd_path(made->get()).c_str(), flags));
    if (!as_it_was) return fail_errno("the message queue {}", object.path);
    return as_it_was;
}

std::optional<Notification> notification_of(const schema::Object& object, const schema::Process& process) {
    if (object.type != "mqueue") return {};
    auto extra = schema::unpack(object.extra);
    if (!extra || schema::number<pid_t>(*extra, "notify_pid") != process.pid) return {};
    return Notification{-1, schema::number<int>(*extra, "notify"), schema::number<int>(*extra, "signal"),
                        schema::number<std::uint64_t>(*extra, "value"),
                        schema::number<std::uint64_t>(*extra, "queue")};
}

std::uint64_t queue_of(const schema::Object& object) {
    auto extra = schema::unpack(object.extra);
    return object.type == "mqueue" && extra ? schema::number<std::uint64_t>(*extra, "queue") : 0;
}

}  // namespace cairn::restart
