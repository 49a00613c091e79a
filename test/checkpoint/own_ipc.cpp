// What is in an IPC namespace that a program has made for itself: System V segments, semaphores and message
// queues with the ids that they had, also those that the machine's have and those that nobody uses just now;
// promises of SEM_UNDO, sleepers; POSIX message queues, open, closed and without a name. Two such namespaces
// at a time have objects of the same ids and keys.
// ci: exact user
// narrow: none
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "own_space.h"

namespace {
using namespace own_space;

constexpr key_t key = 0x63616972;
constexpr std::size_t page = 4096;

char* attach(int id, int flags = 0) {
    void* const at = shmat(id, nullptr, flags);
    CHECK(at != reinterpret_cast<void*>(-1));
    return static_cast<char*>(at);
}

int operate(int set, unsigned short number, short amount, short flags = 0) {
    sembuf operation{number, amount, flags};
    return semop(set, &operation, 1);
}

struct Message {
    long type = 0;
    char text[16] = "";
};

void send(int queue, const char* text, long type) {
    Message message{type, ""};
    std::strncpy(message.text, text, sizeof message.text - 1);
    CHECK(msgsnd(queue, &message, sizeof message.text, 0) == 0);
}

std::string receive(int queue, long type) {
    Message message;
    CHECK(msgrcv(queue, &message, sizeof message.text, type, 0) == static_cast<ssize_t>(sizeof message.text));
    return message.text;
}

// Ids have a count of how often their place was used: not all begin with 0.
void use_up_some_ids(int times) {
    for (int i = 0; i < times; ++i) {
        CHECK(shmctl(shmget(IPC_PRIVATE, 1, 0600), IPC_RMID, nullptr) == 0);
        CHECK(semctl(semget(IPC_PRIVATE, 1, 0600), 0, IPC_RMID) == 0);
        CHECK(msgctl(msgget(IPC_PRIVATE, 0600), IPC_RMID, nullptr) == 0);
    }
}

// Segments: one of the group, one that nobody has attached, one that has been removed.
class Segments {
  public:
    explicit Segments(std::string who) : who_(std::move(who)) {
        attached_ = shmget(key, 3 * page, IPC_CREAT | IPC_EXCL | 0640);
        left_ = shmget(IPC_PRIVATE, 2 * page + 1, IPC_CREAT | 0600);
        removed_ = shmget(IPC_PRIVATE, page, IPC_CREAT | 0600);
        CHECK(attached_ >= 0 && left_ >= 0 && removed_ >= 0);
        at_ = attach(attached_);
        read_only_ = attach(attached_, SHM_RDONLY);
        nameless_ = attach(removed_);
        CHECK(shmctl(removed_, IPC_RMID, nullptr) == 0);
        part_ = attach(attached_);
        CHECK(munmap(part_, page) == 0 && mprotect(part_ + 2 * page, page, PROT_READ) == 0);
        std::strcpy(at_, who_.c_str());
        std::strcpy(at_ + page, "middle");
        std::strcpy(nameless_, who_.c_str());
        char* const other = attach(left_);
        std::strcpy(other + 2 * page - 1, "x");
        CHECK(shmdt(other) == 0);
    }
    // A child has all of it as well, and has a part in two pieces.
    void check() {
        CHECK(read_only_ == who_ && nameless_ == who_ && part_ + page == std::string("middle"));
        CHECK(shmget(key, 0, 0) == attached_);
        shmid_ds about{};
        CHECK(shmctl(attached_, IPC_STAT, &about) == 0 && about.shm_segsz == 3 * page);
        CHECK(about.shm_nattch == 8 && (about.shm_perm.mode & 0777) == 0640);
        CHECK(about.shm_perm.uid == geteuid() && about.shm_perm.cuid == geteuid());
        CHECK(shmctl(removed_, IPC_STAT, &about) == 0 && about.shm_nattch == 2);
        char* const other = attach(left_);
        CHECK(std::string(other + 2 * page - 1) == "x" && other[0] == 0);
        CHECK(shmdt(other) == 0 && shmdt(read_only_) == 0);
        who_ += '.';
        std::strcpy(at_, who_.c_str());
        std::strcpy(nameless_, who_.c_str());
        read_only_ = attach(attached_, SHM_RDONLY);
    }

  private:
    std::string who_;
    int attached_, left_, removed_;
    char *at_, *read_only_, *nameless_, *part_;
};

// A child holds one with a promise and sleeps for another.
class Semaphores {
  public:
    Semaphores() {
        set_ = semget(key, 3, IPC_CREAT | IPC_EXCL | 0600);
        CHECK(set_ >= 0 && semctl(set_, 0, SETVAL, 1) == 0);
        begin();
    }
    void check() {
        CHECK(semget(key, 0, 0) == set_ && semctl(set_, 0, GETVAL) == 0);
        CHECK(operate(set_, 1, 1) == 0 && operate(set_, 2, -1) == 0);  // it wakes up, and answers
        CHECK(kill(holder_, SIGKILL) == 0 && waitpid(holder_, nullptr, 0) == holder_);
        CHECK(semctl(set_, 0, GETVAL) == 1);
        begin();
    }

  private:
    void begin() {
        holder_ = fork();
        CHECK(holder_ >= 0);
        if (holder_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            CHECK(operate(set_, 0, -1, SEM_UNDO) == 0);
            for (;;) CHECK(operate(set_, 1, -1) == 0 && operate(set_, 2, 1) == 0);
        }
        while (semctl(set_, 1, GETNCNT) == 0) test::nap(1);
    }
    int set_;
    pid_t holder_ = 0;
};

class Messages {
  public:
    Messages() : queue_(msgget(key, IPC_CREAT | IPC_EXCL | 0600)) {
        CHECK(queue_ >= 0);
        send(queue_, "first", 3);
        send(queue_, "second", 7);
    }
    void check() const {
        CHECK(msgget(key, 0) == queue_);
        CHECK(receive(queue_, 7) == "second" && receive(queue_, 3) == "first");
        send(queue_, "first", 3);
        send(queue_, "second", 7);
        CHECK(msgrcv(queue_, nullptr, 0, 9, IPC_NOWAIT) == -1 && errno == ENOMSG);
    }

  private:
    int queue_;
};

// One that is open, one that nobody has open, one without a name.
class PosixQueues {
  public:
    explicit PosixQueues(std::string who) : who_(std::move(who)) {
        open_ = make("/cairn-own-ipc");
        closed_with(make("/cairn-own-ipc-closed"));
        nameless_ = make("/cairn-own-ipc-removed");
        CHECK(mq_unlink("/cairn-own-ipc-removed") == 0);
        fill(open_);
        fill(nameless_);
    }
    void check() {
        struct stat status {};
        CHECK(fstat(open_, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 0777) == 0600);
        for (const mqd_t queue : {open_, nameless_}) {
            drain(queue);
            fill(queue);
        }
        const mqd_t again = mq_open("/cairn-own-ipc", O_RDWR | O_CLOEXEC);
        CHECK(again >= 0);
        drain(again);
        fill(again);
        CHECK(mq_close(again) == 0);
        const mqd_t closed = mq_open("/cairn-own-ipc-closed", O_RDWR | O_CLOEXEC);
        CHECK(closed >= 0);
        drain(closed);
        closed_with(closed);
        CHECK(mq_open("/cairn-own-ipc-removed", O_RDONLY) == -1 && errno == ENOENT);
    }

  private:
    static mqd_t make(const char* name) {
        mq_attr attributes{};
        attributes.mq_maxmsg = 3;
        attributes.mq_msgsize = 32;
        const mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attributes);
        CHECK(queue >= 0);
        return queue;
    }
    void fill(mqd_t queue) const {
        CHECK(mq_send(queue, "low", 3, 1) == 0 && mq_send(queue, who_.c_str(), who_.size(), 9) == 0);
    }
    void drain(mqd_t queue) const {
        char text[32];
        unsigned priority = 0;
        const ssize_t got = mq_receive(queue, text, sizeof text, &priority);
        CHECK(got == static_cast<ssize_t>(who_.size()) && priority == 9);
        CHECK(std::string(text, static_cast<std::size_t>(got)) == who_);
        CHECK(mq_receive(queue, text, sizeof text, &priority) == 3 && priority == 1);
    }
    void closed_with(mqd_t queue) const {
        fill(queue);
        CHECK(mq_close(queue) == 0);
    }
    std::string who_;
    mqd_t open_, nameless_;
};

struct All {
    explicit All(const std::string& who) : segments(who), queues(who) {}
    Segments segments;
    Semaphores semaphores;
    Messages messages;
    PosixQueues queues;
    void check() {
        segments.check();
        semaphores.check();
        messages.check();
        queues.check();
    }
};

template <int used>
test::Check all_of_them() {
    auto* all = new All*(nullptr);
    return by(new Child(
        [=] {
            be_root_of_ones_own(CLONE_NEWIPC);
            use_up_some_ids(used);
            *all = new All(std::to_string(used));
        },
        [=] { (*all)->check(); }));
}

// A child that was born later has what its parent had attached, and its own. Both share pages since the fork.
test::Check shared_with_a_child() {
    auto* at = new char*(nullptr);
    auto* child = new pid_t(0);
    return by(new Child(
        [=] {
            be_root_of_ones_own(CLONE_NEWIPC);
            const int segment = shmget(IPC_PRIVATE, page, 0600);
            *at = attach(segment);
            const std::size_t much = std::size_t{6} << 20;
            auto* pages = new char[much];
            std::memset(pages, 7, much);
            *child = fork();
            if (*child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                char* const own = attach(segment);
                CHECK(shmctl(segment, IPC_RMID, nullptr) == 0);
                for (;; test::nap(1))
                    if (own[0] != own[1] && pages[much - 1] == 7) (*at)[1] = own[0];
            }
        },
        [=] {
            const char next = static_cast<char>((*at)[1] + 1);
            (*at)[0] = next;
            for (int i = 0; (*at)[1] != next; ++i) {
                test::nap(1);
                CHECK(i < 10'000);
            }
        }));
}

// What one has before it goes into another one stays the machine's, and by its descriptor only.
test::Check from_before() {
    auto* queue = new mqd_t(-1);
    const std::string name = "/cairn-own-ipc-" + std::to_string(getpid());
    return by(new Child(
        [=] {
            mq_attr attributes{};
            attributes.mq_maxmsg = 1;
            attributes.mq_msgsize = 8;
            *queue = mq_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attributes);
            CHECK(*queue >= 0 && mq_unlink(name.c_str()) == 0 && mq_send(*queue, "before", 6, 4) == 0);
            be_root_of_ones_own(CLONE_NEWIPC);
        },
        [=] {
            char text[8];
            CHECK(mq_receive(*queue, text, sizeof text, nullptr) == 6 && memcmp(text, "before", 6) == 0);
            CHECK(mq_send(*queue, "before", 6, 4) == 0);
            CHECK(shmget(key, 0, 0) == -1 && errno == ENOENT);
        }));
}

// A file system of queues that is mounted in there shows those of that namespace.
test::Check shown_by_a_mount() {
    return by(new Child(
        [] {
            be_root_of_ones_own(CLONE_NEWIPC | CLONE_NEWNS);
            CHECK(mount("queues", "/mnt", "mqueue", 0, nullptr) == 0);
            const mqd_t queue =
                mq_open("/cairn-own-ipc-shown", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, nullptr);
            CHECK(queue >= 0 && mq_close(queue) == 0);
        },
        [] {
            CHECK(access("/mnt/cairn-own-ipc-shown", R_OK | W_OK) == 0);
            CHECK(access("/mnt/cairn-own-ipc-other", F_OK) == -1);
            const mqd_t other = mq_open("/cairn-own-ipc-other", O_RDWR | O_CREAT | O_CLOEXEC, 0600, nullptr);
            CHECK(other >= 0 && mq_close(other) == 0 && access("/mnt/cairn-own-ipc-other", F_OK) == 0);
            CHECK(unlink("/mnt/cairn-own-ipc-other") == 0);
        }));
}

}  // namespace

int main() {
    need_user_namespaces();
    const pid_t probe = fork();
    if (probe == 0) _exit(mq_open("/cairn-own-ipc-probe", O_RDONLY) == -1 && errno == ENOSYS ? 1 : 0);
    int status = 0;
    CHECK(waitpid(probe, &status, 0) == probe);
    if (status != 0) test::skip("no POSIX message queues");
    test::serve({
        {"all of them", all_of_them<0>},
        {"all of them, with other ids", all_of_them<3>},
        {"all of them, with ids of another namespace", all_of_them<0>},
        {"shared with a child", shared_with_a_child},
        {"from before", from_before},
        {"shown by a mount", shown_by_a_mount},
    });
}
