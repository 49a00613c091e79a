// POSIX message queues (mq_open). No look leaves the messages where they are: they are taken and put back in
// the order in which they came, which for the kernel is the same queue (ipc/mqueue.c sorts by priority, then
// by arrival).
#include <fcntl.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "resources/capture/guard.h"
#include "resources/capture/table.h"
#include "resources/mqueue/capture_by_thread.h"
#include "resources/namespace/capture_own.h"

namespace cairn::capture {
namespace {

struct QueuesFound {
    std::map<ino_t, std::vector<std::int64_t>> all;                  // their descriptions
    std::map<std::pair<pid_t, ino_t>, std::uint64_t> notifications;  // values that mq_notify(3) was given
};

struct Status {
    pid_t waiting = 0;  // who is to be notified (kernel's id), 0: nobody
    int how = 0, signal = 0;
};

// "QSIZE:6          NOTIFY:0     SIGNO:10    NOTIFY_PID:10110": what reading a queue as a file gives.
Status status_of(int fd) {
    char text[256] = "";
    Status status;
    if (::pread(fd, text, sizeof text - 1, 0) <= 0) return status;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        const auto colon = word.find(':');
        if (colon == std::string::npos) continue;
        const int number = std::atoi(word.c_str() + colon + 1);
        if (word.starts_with("NOTIFY:")) status.how = number;
        if (word.starts_with("SIGNO:")) status.signal = number;
        if (word.starts_with("NOTIFY_PID:")) status.waiting = number;
    }
    return status;
}

// To read its message this queue would have to be empty for a moment, and whoever asked for it would be told
// when the message is put back: there is no place for another one beside it (take_last()).
std::unexpected<Error> not_now(const Description& found) {
    auto error = fail_code(ExitCode::refused,
                           "{}: somebody waits for a notification of {}, which has a message and holds one "
                           "at most: that can't be "
                           "read without notifying him; once it has been received the queue can be saved",
                           found.who(), found.link);
    error.error().passing = true;
    return error;
}

struct Message {
    std::vector<char> text;
    unsigned priority = 0;
};

// False: errno says why.
bool take_message(int fd, std::size_t longest, Message& message) {
    message.text.resize(longest);
    const ssize_t size = ::mq_receive(fd, message.text.data(), message.text.size(), &message.priority);
    if (size < 0) return false;
    message.text.resize(static_cast<std::size_t>(size));
    message.text.shrink_to_fit();
    return true;
}

bool put_message(int fd, const Message& message) {
    return ::mq_send(fd, message.text.data(), message.text.size(), message.priority) == 0;
}

// Reads the only message of a queue that may not be empty for an instant. One of ours is put beside it: if it
// has the same priority it is behind the other and takes its place for the moment; if it has a higher one it
// comes back itself, and nothing has changed. (One of a lower priority could never be got rid of.) So
// priorities are tried from `at_most` downwards. A message of ours is told from the other by its size, and
// for the case that they are equal there are two sizes.
bool take_last(int fd, std::size_t longest, unsigned at_most, Message& last) {
    for (unsigned priority = at_most;; --priority) {
        for (const std::size_t size : {std::size_t{0}, std::size_t{1}}) {
            const Message ours{std::vector<char>(size), priority};
            if (!put_message(fd, ours) || !take_message(fd, longest, last)) return false;
            if (last.text.size() == size) continue;
            Message back;
            return put_message(fd, last) && take_message(fd, longest, back);
        }
        if (priority == 0) break;
    }
    errno = EIO;  // somebody outside uses it this instant
    return false;
}

// Somebody waits to be told when a message comes into the empty queue: it isn't emptied.
bool take_and_put_back_unnoticed(int fd, std::size_t longest, std::vector<Message>& taken) {
    const std::size_t others = taken.size() - 1;
    std::size_t held = 0;
    while (held < others && take_message(fd, longest, taken[held])) ++held;
    Message& last = taken[others];
    const unsigned at_most = others > 0 ? taken[others - 1].priority : MQ_PRIO_MAX - 1;
    if (held < others || !take_last(fd, longest, at_most, last)) {
        const int problem = errno;
        for (std::size_t i = 0; i < held; ++i) (void)put_message(fd, taken[i]);
        errno = problem;
        return false;
    }
    // Those of its own priority were before it.
    std::size_t first_equal = others;
    while (first_equal > 0 && taken[first_equal - 1].priority == last.priority) --first_equal;
    for (std::size_t i = first_equal; i < others; ++i)
        if (!put_message(fd, taken[i])) return false;
    if (Message again; first_equal < others && (!take_message(fd, longest, again) || !put_message(fd, again)))
        return false;
    for (std::size_t i = 0; i < first_equal; ++i)
        if (!put_message(fd, taken[i])) return false;
    return true;
}

// 0 or errno.
int take_and_put_back(int fd, const mq_attr& attributes, bool unnoticed, std::vector<Message>& taken) {
    const auto longest = static_cast<std::size_t>(attributes.mq_msgsize);
    taken.resize(static_cast<std::size_t>(attributes.mq_curmsgs));  // no message is held that has no place
    if (unnoticed) return take_and_put_back_unnoticed(fd, longest, taken) ? 0 : errno;
    std::size_t count = 0;
    while (count < taken.size() && take_message(fd, longest, taken[count])) ++count;
    taken.resize(count);
    for (const Message& message : taken)
        if (!put_message(fd, message)) return errno;
    return 0;
}

bool write_whole(int fd, const void* data, std::size_t size) {
    const auto* at = static_cast<const char*>(data);
    while (size > 0) {
        const ssize_t done = ::write(fd, at, size);
        if (done <= 0) return false;
        at += done;
        size -= static_cast<std::size_t>(done);
    }
    return true;
}

bool read_whole(int fd, void* data, std::size_t size) {
    auto* at = static_cast<char*>(data);
    while (size > 0) {
        const ssize_t done = ::read(fd, at, size);
        if (done <= 0) return false;
        at += done;
        size -= static_cast<std::size_t>(done);
    }
    return true;
}

struct Head {
    std::uint64_t size;
    unsigned priority;
};

// In the process that has the messages in its hands while they are in no queue.
bool take_and_tell(int queue, const mq_attr& attributes, bool unnoticed, int to) {
    std::vector<Message> taken;
    const int error = take_and_put_back(queue, attributes, unnoticed, taken);
    bool told = write_whole(to, &error, sizeof error);
    for (const Message& message : taken) {
        const Head head = {message.text.size(), message.priority};
        told = told && write_whole(to, &head, sizeof head) &&
               write_whole(to, message.text.data(), message.text.size());
    }
    return told;
}

Result<std::vector<schema::MqueueMessage>> messages_of(int queue, const mq_attr& attributes, bool unnoticed) {
    auto guard = TRY(Guard::begin("cairn-messages",
                                  [&](int to) { return take_and_tell(queue, attributes, unnoticed, to); }));
    int error = 0;
    bool whole = read_whole(guard.answer(), &error, sizeof error);
    std::vector<schema::MqueueMessage> messages;
    for (Head head{}; whole && read_whole(guard.answer(), &head, sizeof head);) {
        schema::Bytes text(head.size);
        whole = read_whole(guard.answer(), text.data(), text.size());
        messages.push_back({head.priority, std::move(text)});
    }
    const bool ended = guard.end();
    errno = error;
    if (error != 0) return fail_errno("a message can't be put back");
    if (!whole || !ended) return fail("the process that read its messages was ended");
    return messages;
}

// An IPC namespace of the group's own. Every queue in it is the group's.
struct OwnQueues {
    std::int64_t space = -1;
    dev_t device = 0;  // of its file system of queues, which no other namespace has
    std::vector<std::pair<std::string, Fd>> named;
};

// In that namespace. Names are told by a mount of that file system only (mq_overview(7)), which is made where
// nobody sees it.
Result<> look_at_queues(OwnQueues& own) {
    constexpr const char* place = "/proc";
    struct stat before {};
    if (::stat(place, &before) != 0) return fail_errno("{}", place);
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        (::mount("none", place, "mqueue", 0, nullptr) != 0 && errno != ENODEV))
        return fail_errno("POSIX message queues of an IPC namespace can't be looked at");
    struct stat root {};
    if (::stat(place, &root) != 0) return fail_errno("POSIX message queues");
    if (root.st_dev == before.st_dev) return {};  // a kernel that has no queues
    own.device = root.st_dev;
    std::error_code problem;
    for (const auto& each : std::filesystem::directory_iterator(place, problem)) {
        const std::string name = "/" + each.path().filename().native();
        Fd queue(::mq_open(name.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
        if (!queue) return fail_errno("the message queue {} can't be read", name);
        own.named.emplace_back(name, std::move(queue));
    }
    if (problem) return fail("POSIX message queues: {}", problem.message());
    return {};
}

schema::Mqueue described(const struct stat& status, const mq_attr& attributes) {
    return {.queue = status.st_ino,
            .mode = status.st_mode & 07777,
            .uid = status.st_uid,
            .gid = status.st_gid,
            .messages_at_most = attributes.mq_maxmsg,
            .bytes_at_most = attributes.mq_msgsize,
            .messages = {},
            .notify = {},
            .space = {}};
}

// The device of the queues in our own IPC namespace; 0: that can't be had.
dev_t our_queues() {
    const std::string name = fmt::format("/cairn-{}", ::getpid());
    const Fd queue(::mq_open(name.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600, nullptr));
    struct stat status {};
    if (queue) ::mq_unlink(name.c_str());
    return queue && ::fstat(queue.get(), &status) == 0 ? status.st_dev : 0;
}

// Which namespace a queue is of, that somebody has open.
Result<> place_queue(Table& table, std::int64_t object, const std::vector<OwnQueues>& all, dev_t& ours) {
    const Description& found = table.descriptions.at(object);
    auto& saved = std::get<schema::Mqueue>(table.objects[static_cast<std::size_t>(object)].what);
    const auto own = std::ranges::find(all, found.status.st_dev, &OwnQueues::device);
    if (own != all.end()) {
        saved.space = own->space;
        return {};
    }
    if (ours == 0) ours = our_queues();
    if (ours != 0 && ours != found.status.st_dev)
        return fail_code(ExitCode::refused,
                         "{} is the message queue {} of an IPC namespace that no process of the computation "
                         "is in, which can't be saved; close it before a checkpoint",
                         found.who(), found.link);
    return {};
}

// Those that nobody has open just now.
Result<> add_unopened(Table& table, std::vector<OwnQueues>& all) {
    auto& known = table.of<QueuesFound>().all;
    for (OwnQueues& own : all)
        for (auto& [name, queue] : own.named) {
            struct stat status {};
            mq_attr attributes{};
            if (::fstat(queue.get(), &status) != 0 || ::mq_getattr(queue.get(), &attributes) != 0)
                return fail_errno("the message queue {}", name);
            if (known.contains(status.st_ino)) continue;
            auto saved = described(status, attributes);
            saved.space = own.space;
            if (attributes.mq_curmsgs != 0) {
                auto messages = messages_of(queue.get(), attributes, false);
                if (!messages) return std::unexpected(std::move(messages.error()).in(name));
                saved.messages = std::move(*messages);
            }
            schema::Object& object = table.add(std::move(saved));
            object.path = name;
            object.flags = O_RDWR;
        }
    return {};
}

std::vector<ByThread> notified_by_thread(const Table& table) {
    std::vector<ByThread> all;
    for (const auto& [inode, objects] : table.of<QueuesFound>().all) {
        const Description& found = table.descriptions.at(objects.front());
        const Fd readable = reopen(found.fd(), O_RDONLY | O_NONBLOCK);
        if (!readable) continue;  // which capture_mqueues() complains of
        const Status status = status_of(readable.get());
        if (status.how == SIGEV_THREAD && table.members.contains(status.waiting))
            all.push_back({status.waiting, found.link});
    }
    return all;
}

// Of a member, of the queue that these are descriptions of.
Result<schema::MqueueNotify> notification(Table& table, const Description& found,
                                          const std::vector<std::int64_t>& objects, const Status& status) {
    schema::MqueueNotify notify;
    notify.pid = table.to_program(KernelId(status.waiting));
    notify.how = status.how;
    notify.signal = status.signal;
    if (status.how == SIGEV_THREAD) {
        auto renewed = notice_of(table, status.waiting, objects);
        if (!renewed)
            return fail_code(ExitCode::refused,
                             "{}: process {} is to be notified of {} by a thread (SIGEV_THREAD), which can't "
                             "be saved: {}; let it ask for a signal",
                             found.who(), status.waiting, found.link, renewed.error().what);
        notify.socket = renewed->socket;
        notify.notice = std::move(renewed->bytes);
        return notify;
    }
    const auto& known = table.of<QueuesFound>().notifications;
    const auto value = known.find({status.waiting, found.status.st_ino});
    if (value != known.end())
        notify.value = value->second;
    else
        table.note("{}: with what value {} is to be notified isn't known: 0 is assumed", found.who(),
                   status.waiting);
    return notify;
}

}  // namespace

Result<> describe_mqueue(Table& table, const Description& found, schema::Object& object) {
    object.path = object.path.substr(object.path.rfind('/'));
    object.deleted = found.status.st_nlink == 0;
    mq_attr attributes{};
    if (::mq_getattr(found.fd(), &attributes) != 0) return fail_errno("is the message queue {}", found.link);
    table.of<QueuesFound>().all[found.status.st_ino].push_back(object.id);
    object.what = described(found.status, attributes);
    return {};
}

void ObjectTable::notification(const Holder& holder, std::int64_t object, std::uint64_t value) {
    const auto found = table_->descriptions.find(object);
    if (found != table_->descriptions.end())
        table_->of<QueuesFound>().notifications[{holder.pid, found->second.status.st_ino}] = value;
}

Result<> capture_mqueues(Table& table) {
    CHECK_OK(find_notice_sockets(table, notified_by_thread(table)));
    std::vector<OwnQueues> own;
    for (const std::int64_t space : own_ipcs(table)) {
        auto& there = own.emplace_back();
        there.space = space;
        CHECK_OK(in_own_space(table, space, [&] { return look_at_queues(there); }));
    }
    if (dev_t ours = 0; has_own_namespaces(table))
        for (const auto& [inode, objects] : table.of<QueuesFound>().all)
            for (const std::int64_t object : objects) CHECK_OK(place_queue(table, object, own, ours));
    for (const auto& [inode, objects] : table.of<QueuesFound>().all) {
        schema::Object& object = table.objects[static_cast<std::size_t>(objects.front())];
        const Description& found = table.descriptions.at(object.id);
        auto& saved = std::get<schema::Mqueue>(object.what);
        const Fd both = reopen(found.fd(), O_RDWR | O_NONBLOCK);
        if (!both) return fail_errno("{}: the message queue {} can't be read", found.who(), found.link);
        const Status status = status_of(both.get());
        mq_attr attributes{};
        if (::mq_getattr(both.get(), &attributes) != 0) return fail_errno("{}: {}", found.who(), found.link);
        const bool unnoticed = status.waiting != 0;
        if (attributes.mq_curmsgs == 1 && attributes.mq_maxmsg == 1 && unnoticed) return not_now(found);
        if (attributes.mq_curmsgs != 0) {
            auto messages = messages_of(both.get(), attributes, unnoticed);
            if (!messages) return std::unexpected(std::move(messages.error()).in(found.link).in(found.who()));
            saved.messages = std::move(*messages);
        }
        if (status.waiting != 0 && table.members.contains(status.waiting))
            saved.notify = TRY(notification(table, found, objects, status));
    }
    return add_unopened(table, own);
}

}  // namespace cairn::capture
