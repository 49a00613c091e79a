// POSIX message queues that notify by a thread (SIGEV_THREAD): function, value and attributes are libc's
// secret, and are there again; of a process with several queues, one of which has a message by now, and of
// its child.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "support.h"

namespace {

constexpr long message_size = 16;
constexpr std::size_t stack_size = std::size_t{1} << 20;

mqd_t make(const std::string& name) {
    mq_attr attributes{};
    attributes.mq_maxmsg = 4;
    attributes.mq_msgsize = message_size;
    const mqd_t queue = mq_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    if (queue < 0 && errno == ENOSYS) test::skip("no POSIX message queues");
    CHECK(queue >= 0 && mq_unlink(name.c_str()) == 0);
    return queue;
}

std::atomic<int> told{0}, value{0};
std::atomic<std::size_t> stack{0};

void on_message(sigval given) {
    pthread_attr_t attributes;
    std::size_t size = 0;
    CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
    CHECK(pthread_attr_getstacksize(&attributes, &size) == 0 && pthread_attr_destroy(&attributes) == 0);
    stack = size;
    value = given.sival_int;
    ++told;
}

void ask(mqd_t queue, int number) {
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, stack_size) == 0);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = on_message;
    event.sigev_value.sival_int = number;
    if (number % 2 == 0) event.sigev_notify_attributes = &attributes;
    CHECK(mq_notify(queue, &event) == 0);
    CHECK(pthread_attr_destroy(&attributes) == 0);
}

void take(mqd_t queue) {
    char text[message_size];
    CHECK(mq_receive(queue, text, sizeof text, nullptr) == 1 && text[0] == 'm');
}

// It has been asked for, and nobody else may; a message tells it.
void hear(mqd_t queue, int number) {
    sigevent other{};
    other.sigev_notify = SIGEV_NONE;
    CHECK(mq_notify(queue, &other) == -1 && errno == EBUSY && told == 0);
    CHECK(mq_send(queue, "m", 1, 0) == 0);
    while (told == 0) test::nap(1);
    CHECK(told.exchange(0) == 1 && value == number && (number % 2 != 0 || stack == stack_size));
    take(queue);
}

// Two queues, and one that has a message already, so that only the next into the empty queue is told.
struct Asker {
    std::array<mqd_t, 2> queues;
    mqd_t filled;
    int number;

    void begin() const {
        ask(queues[0], number);
        ask(queues[1], number + 1);
        CHECK(mq_send(filled, "m", 1, 0) == 0);
        ask(filled, number + 2);
    }
    void check() const {
        hear(queues[1], number + 1);
        hear(queues[0], number);
        take(filled);
        hear(filled, number + 2);
    }
};

Asker make(const std::string& stem, int number) {
    return {{make(stem + "-a"), make(stem + "-b")}, make(stem + "-c"), number};
}

}  // namespace

int main() {
    const std::string stem = "/cairn-test-" + std::to_string(getpid()) + "-" +
                             std::to_string(static_cast<long>(test::now(CLOCK_REALTIME) * 1e6));
    const Asker own = make(stem, 10);
    int orders[2], answers[2];
    CHECK(pipe(orders) == 0 && pipe(answers) == 0);
    // Before there is a socket: libc's threads of two processes would read from one that both have, and might
    // get what is the other's.
    const pid_t child = fork();
    if (child == 0) {
        const Asker asker = make(stem + "-child", 20);
        for (char order = 'b'; order != 'q';) {
            if (order == 'x') asker.check();
            asker.begin();
            CHECK(write(answers[1], "r", 1) == 1 && read(orders[0], &order, 1) == 1);
        }
        _exit(0);
    }
    own.begin();
    char answer = 0;
    CHECK(child > 0 && read(answers[0], &answer, 1) == 1);
    test::serve([&](bool last) {
        own.check();
        own.begin();
        CHECK(write(orders[1], "x", 1) == 1 && read(answers[0], &answer, 1) == 1);
        if (!last) return;
        int status = -1;
        CHECK(write(orders[1], "q", 1) == 1 && waitpid(child, &status, 0) == child && status == 0);
    });
}
