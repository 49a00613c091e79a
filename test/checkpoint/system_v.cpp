// System V shared memory, semaphores and message queues: private ones and some with a key, a segment that has
// been removed, parts of segments, promises of SEM_UNDO (kept over an exec, void after SETVAL), sleepers in
// semop, semtimedop, msgrcv and msgsnd.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
// still: exact
#include <signal.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "support.h"

namespace {

constexpr std::size_t page = 4096;
enum Number : unsigned short { counting, lock, voided, asked, answered, timed, holding, set_size };

struct Message {
    long type = 0;
    char text[64] = "";
};

int operate(int set, unsigned short number, short amount, short flags = 0) {
    sembuf operation{number, amount, flags};
    return semop(set, &operation, 1);
}
int value(int set, int number) {
    return semctl(set, number, GETVAL);
}
struct Segments {
    int whole, keyed, removed;
    key_t key;
    char *at, *read_only, *nameless, *part;

    static char* attach(int id, int flags = 0) {
        void* memory = shmat(id, nullptr, flags);
        CHECK(memory != reinterpret_cast<void*>(-1));
        return static_cast<char*>(memory);
    }
    void set_up(key_t wanted) {
        key = wanted;
        whole = shmget(IPC_PRIVATE, 3 * page + 5, IPC_CREAT | 0640);
        keyed = shmget(key, 5 * page, IPC_CREAT | IPC_EXCL | 0600);
        removed = shmget(IPC_PRIVATE, page, IPC_CREAT | 0600);
        CHECK(whole >= 0 && keyed >= 0 && removed >= 0);
        at = attach(whole);
        read_only = attach(whole, SHM_RDONLY);
        nameless = attach(removed);
        CHECK(shmctl(removed, IPC_RMID, nullptr) == 0);
        part = attach(keyed);
        for (std::size_t i = 0; i < 5; ++i) std::snprintf(part + i * page, page, "page %zu", i);
        // the second and third page stay, the third can't be written to
        CHECK(munmap(part, page) == 0 && munmap(part + 3 * page, 2 * page) == 0);
        CHECK(mprotect(part + 2 * page, page, PROT_READ) == 0);
        std::strcpy(at, "first");
        std::strcpy(at + 3 * page, "last");
        std::strcpy(nameless, "removed, and there all the same");
    }
    void check(long turn, unsigned processes) {
        CHECK(std::strcmp(read_only, turn == 0 ? "first" : std::to_string(turn).c_str()) == 0);
        CHECK(std::strcmp(at + 3 * page, "last") == 0);
        CHECK(std::strcmp(nameless, "removed, and there all the same") == 0);
        CHECK(std::strcmp(part + page, "page 1") == 0 && std::strcmp(part + 2 * page, "page 2") == 0);
        shmid_ds about{};
        CHECK(shmctl(whole, IPC_STAT, &about) == 0 && about.shm_segsz == 3 * page + 5);
        CHECK(about.shm_nattch == 2 * processes && (about.shm_perm.mode & 0777) == 0640);
        CHECK(shmctl(removed, IPC_STAT, &about) == 0 && about.shm_nattch == processes);
        CHECK(shmget(key, 0, 0) == keyed && shmget(key, 0, IPC_CREAT | IPC_EXCL) == -1);
        char* again = attach(keyed);
        CHECK(std::strcmp(again, "page 0") == 0 && std::strcmp(again + 4 * page, "page 4") == 0);
        CHECK(shmdt(again) == 0 && shmdt(again) == -1);
        CHECK(shmdt(read_only) == 0);
        read_only = attach(whole, SHM_RDONLY);
        std::strcpy(at, std::to_string(turn + 1).c_str());
        CHECK(std::strcmp(read_only, std::to_string(turn + 1).c_str()) == 0);
    }
};

struct Queue {
    int id, full;
    key_t key;

    void set_up(key_t wanted) {
        key = wanted;
        id = msgget(key, IPC_CREAT | IPC_EXCL | 0600);
        full = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
        CHECK(id >= 0 && full >= 0);
        send("to stay", 3, id);
        CHECK(msgsnd(id, std::array<long, 1>{7}.data(), 0, 0) == 0);  // a message of no bytes
        send("later", 3, id);
        msqid_ds about{};
        CHECK(msgctl(full, IPC_STAT, &about) == 0);
        about.msg_qbytes = 100;
        CHECK(msgctl(full, IPC_SET, &about) == 0);
        send(std::string(60, 'x').c_str(), 1, full);
    }
    static void send(const char* text, long type, int to) {
        Message message{type, ""};
        std::strncpy(message.text, text, sizeof message.text - 1);
        CHECK(msgsnd(to, &message, std::strlen(text) + 1, 0) == 0);
    }
    static std::string receive(int from, long type) {
        Message message;
        const ssize_t got = msgrcv(from, &message, sizeof message.text, type, 0);
        CHECK(got >= 0);
        return got == 0 ? "nothing" : message.text;
    }
    void check(long turn) const {
        CHECK(msgget(key, 0) == id);
        msqid_ds about{};
        CHECK(msgctl(id, IPC_STAT, &about) == 0 && about.msg_qnum == 3);
        const std::string first = turn == 0 ? "to stay" : "later";
        CHECK(receive(id, 3) == first && receive(id, 7) == "nothing" && receive(id, -5) == "later");
        send("later", 3, id);
        CHECK(msgsnd(id, std::array<long, 1>{7}.data(), 0, 0) == 0);
        send("later", 3, id);
        send("what?", 8, id);  // the child sleeps for it
        CHECK(receive(id, 9) == "WHAT?");
        // somebody waits for room
        CHECK(msgctl(full, IPC_STAT, &about) == 0 && about.msg_qbytes == 100 && about.msg_qnum == 1);
        CHECK(receive(full, 0) == std::string(60, 'x'));
        for (int i = 0; about.msg_qnum != 1 || about.msg_lspid == 0 || i == 0; ++i) {
            test::nap(1);
            CHECK(i < 10'000 && msgctl(full, IPC_STAT, &about) == 0);
        }
    }
};

// What the cases share.
const char* program = nullptr;
key_t own_key = 0;
int semaphores = -1;
Segments segments{};
Queue queue{};
std::atomic<bool> over{false};  // the objects are being removed

void end(pid_t pid) {
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, nullptr, 0) == pid);
}

test::Check shared_memory() {
    segments.set_up(own_key);
    return [turn = 0L](bool last) mutable {
        segments.check(turn++, 3);
        if (!last) return;
        CHECK(shmctl(segments.whole, IPC_RMID, nullptr) == 0 &&
              shmctl(segments.keyed, IPC_RMID, nullptr) == 0);
    };
}

test::Check semaphores_by_key() {
    const int keyed = semget(own_key, 1, IPC_CREAT | 0600);
    CHECK(keyed >= 0 && semctl(keyed, 0, SETVAL, 77) == 0);
    return [=](bool last) {
        CHECK(value(keyed, 0) == 77 && semget(own_key, 0, 0) == keyed);
        if (last) CHECK(semctl(keyed, 0, IPC_RMID) == 0);
    };
}

// A child that writes into the segment when it is asked to.
test::Check asleep_in_semop() {
    const pid_t worker = fork();
    if (worker == 0)
        for (;;) {
            CHECK(operate(semaphores, asked, -1) == 0);
            std::strcpy(segments.at + page, "by the child");
            CHECK(operate(semaphores, answered, 1) == 0);
        }
    return [=](bool last) {
        segments.at[page] = 0;
        CHECK(operate(semaphores, asked, 1) == 0 && operate(semaphores, answered, -1) == 0);
        CHECK(std::strcmp(segments.at + page, "by the child") == 0);
        if (last) end(worker);
    };
}

test::Check asleep_in_semtimedop() {
    static std::atomic<int> woken{0};
    std::thread([] {
        for (;;) {
            sembuf operation{timed, -1, 0};
            const timespec long_time{1'000'000, 0};
            const int done = semtimedop(semaphores, &operation, 1, &long_time);
            if (over) return;
            CHECK(done == 0);
            ++woken;
        }
    }).detach();
    return [turn = 0](bool) mutable {
        CHECK(woken == turn++);
        CHECK(operate(semaphores, timed, 1) == 0);
        while (woken != turn) test::nap(1);
    };
}

// A child that is asleep in msgrcv, and a thread that is in msgsnd.
test::Check queues() {
    queue.set_up(own_key);
    const pid_t listener = fork();
    if (listener == 0)
        for (;;) {
            std::string text = Queue::receive(queue.id, 8);
            for (char& letter : text) letter = static_cast<char>(std::toupper(letter));
            Queue::send(text.c_str(), 9, queue.id);
        }
    std::thread([] {
        for (;;) {
            Message message{1, ""};
            std::memset(message.text, 'x', 60);
            const int done = msgsnd(queue.full, &message, 61, 0);
            if (over) return;
            CHECK(done == 0);
        }
    }).detach();
    return [listener, turn = 0L](bool last) mutable {
        queue.check(turn++);
        if (last) end(listener);
    };
}

// What this process itself has promised, and a little of it back.
test::Check own_promises() {
    CHECK(operate(semaphores, counting, -4, SEM_UNDO) == 0 &&
          operate(semaphores, counting, 2, SEM_UNDO) == 0);
    return [](bool) { CHECK(value(semaphores, counting) == 3); };
}

// Takes the lock with a promise to give it back, and one that SETVAL makes void; keeps both over an exec.
pid_t start_holder(int voided_value) {
    const pid_t child = fork();
    const std::string id = std::to_string(semaphores);
    CHECK(child >= 0);
    if (child == 0) {
        execl(program, program, "promise", id.c_str(), nullptr);
        CHECK(false && "execl");
    }
    // Until it has gone on after its last promise: one that is made void by somebody who is faster than the
    // note of it would be remembered (docs/moments.md).
    CHECK(operate(semaphores, holding, -1) == 0 && value(semaphores, voided) == voided_value);
    CHECK(value(semaphores, lock) == 0 && semctl(semaphores, voided, SETVAL, 1) == 0);
    return child;
}

test::Check promises_over_an_exec() {
    return [holder = start_holder(3)](bool last) mutable {
        CHECK(value(semaphores, lock) == 0 && value(semaphores, voided) == 1);
        // The kernel keeps the promise; the one that is void isn't kept.
        end(holder);
        CHECK(value(semaphores, lock) == 1 && value(semaphores, voided) == 1);
        if (!last) holder = start_holder(4);
    };
}

test::Check removal() {
    return [](bool last) {
        if (!last) return;
        over = true;
        CHECK(semctl(semaphores, 0, IPC_RMID) == 0);
        CHECK(msgctl(queue.id, IPC_RMID, nullptr) == 0 && msgctl(queue.full, IPC_RMID, nullptr) == 0);
    };
}

// The holder of the promises, which knows the set by its arguments.
[[noreturn]] void promise_or_hold(char** argv) {
    const int known = std::atoi(argv[2]);
    if (std::strcmp(argv[1], "promise") == 0) {
        CHECK(operate(known, lock, -1, SEM_UNDO) == 0 && operate(known, voided, 3, SEM_UNDO) == 0);
        execl(argv[0], argv[0], "hold", argv[2], nullptr);
        CHECK(false && "execl");
    }
    CHECK(operate(known, holding, 1) == 0);
    for (;;) pause();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 3) promise_or_hold(argv);
    program = argv[0];
    own_key = 0x43000000 | static_cast<key_t>(static_cast<long>(test::now(CLOCK_REALTIME) * 1e6) & 0xffffff);
    semaphores = semget(IPC_PRIVATE, set_size, IPC_CREAT | 0600);
    unsigned short values[set_size] = {5, 1, 0, 0, 0, 0, 0};
    CHECK(semaphores >= 0 && semctl(semaphores, 0, SETALL, values) == 0);
    test::serve({{"shared memory", shared_memory},
                 {"semaphores by a key", semaphores_by_key},
                 {"a child asleep in semop", asleep_in_semop},
                 {"message queues", queues},
                 {"a thread asleep in semtimedop", asleep_in_semtimedop},
                 {"promises of one's own", own_promises},
                 {"promises over an exec", promises_over_an_exec},
                 {"removal", removal}});
}
