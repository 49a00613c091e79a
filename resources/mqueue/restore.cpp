// POSIX message queues. One that has outlived its programs gets the contents that it had at the checkpoint.
#include "resources/namespace/restore.h"

#include <fcntl.h>
#include <mqueue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "resources/restore/other.h"

namespace cairn::restart {
namespace {

mqd_t make(const std::string& name, mq_attr& attributes) {
    return ::mq_open(name.c_str(), O_RDWR | O_NONBLOCK | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attributes);
}

// With the rights of who had it: another's queue of that name is none of his.
Result<Fd> find_or_make(const schema::Object& object, const schema::Mqueue& saved, bool& was_there) {
    mq_attr wanted{};
    wanted.mq_maxmsg = saved.messages_at_most;
    wanted.mq_msgsize = saved.bytes_at_most;
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
Result<> empty(const schema::Object& object, const schema::Mqueue& saved, int queue) {
    mq_attr has{};
    if (::mq_getattr(queue, &has) != 0) return fail_errno("{}", object.path);
    if (has.mq_maxmsg != saved.messages_at_most || has.mq_msgsize != saved.bytes_at_most)
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

Result<> fill(int queue, const schema::Mqueue& saved) {
    for (const schema::MqueueMessage& message : saved.messages)
        if (::mq_send(queue, reinterpret_cast<const char*>(message.text.data()), message.text.size(),
                      message.priority) != 0)
            return fail_errno("a message of {} bytes", message.text.size());
    return {};
}

}  // namespace

Result<Fd> open_mqueue(Opening& opening, const schema::Object& object, const schema::Mqueue& saved) {
    const int flags = (object.flags & (O_ACCMODE | O_NONBLOCK)) | O_CLOEXEC;
    // The same queue, opened more than once.
    for (const auto& other : opening.objects.objects) {
        if (other.id >= object.id || queue_of(other) != saved.queue) continue;
        const auto first = TRY(opening.opened.lend(other.id));
        Fd again(::open(fd_path(first.get()).c_str(), flags));
        if (!again) return fail_errno("the message queue {}", object.path);
        return again;
    }
    const Access& access = opening.options.access;
    bool was_there = false;
    Result<Fd> made = Fd();
    if (saved.space) {
        CHECK_OK(in_own_space(opening, *saved.space, [&]() -> Result<> {
            made = find_or_make(object, saved, was_there);
            return {};
        }));
    } else {
        const auto acting = TRY(ActingAs::begin(access.one_of(object.id, saved.uid)));
        made = find_or_make(object, saved, was_there);
    }
    if (!made) return made;
    if (!*made && was_there && access.doubt().empty()) made = the_very_queue(object, saved.queue);
    if (!made) return made;
    if (!*made)
        return fail_errno(
            "the message queue {} can't be had again ({})", object.path,
            was_there ? "it is another user's by now: remove it, rm /dev/mqueue/NAME" : "ulimit -q?");
    if (was_there) CHECK_OK(empty(object, saved, made->get()));
    CHECK_OK(fill(made->get(), saved));
    if (!was_there && ::geteuid() == 0 && ::fchown(made->get(), saved.uid, saved.gid) != 0)
        opening.note("the message queue {} can't be given to user {}", object.path, saved.uid);
    if (!was_there) ::fchmod(made->get(), saved.mode);
    Fd as_it_was(::open(fd_path(made->get()).c_str(), flags));
    if (!as_it_was) return fail_errno("the message queue {}", object.path);
    return as_it_was;
}

std::optional<Notification> notification_of(const schema::Object& object, const schema::Process& process) {
    const auto* saved = object.get<schema::Mqueue>();
    if (saved == nullptr || !saved->notify || saved->notify->pid != process.pid) return {};
    const auto& notify = *saved->notify;
    const int signal = notify.socket ? notify.socket->number() : notify.signal;
    return Notification{{}, notify.how, signal, notify.value, saved->queue, notify.notice};
}

std::uint64_t queue_of(const schema::Object& object) {
    const auto* saved = object.get<schema::Mqueue>();
    return saved != nullptr ? saved->queue : 0;
}

}  // namespace cairn::restart
