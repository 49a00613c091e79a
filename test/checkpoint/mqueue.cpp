// POSIX message queues: messages of several priorities in their order, attributes, several descriptions of
// one queue, a queue without a name, notifications by signal, sleepers in mq_receive and mq_send.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <mqueue.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support.h"

namespace {

constexpr long message_size = 64;

mqd_t make(const std::string& name, int flags, long messages, mode_t mode = 0600) {
    mq_attr attributes{};
    attributes.mq_maxmsg = messages;
    attributes.mq_msgsize = message_size;
    const mqd_t queue = mq_open(name.c_str(), flags | O_CREAT | O_EXCL, mode, &attributes);
    if (queue < 0 && errno == ENOSYS) test::skip("no POSIX message queues");
    CHECK(queue >= 0);
    return queue;
}
void send(mqd_t queue, const char* text, unsigned priority) {
    CHECK(mq_send(queue, text, std::strlen(text), priority) == 0);
}
std::string receive(mqd_t queue, unsigned* priority = nullptr) {
    char text[message_size];
    const ssize_t size = mq_receive(queue, text, sizeof text, priority);
    CHECK(size >= 0);
    return {text, static_cast<std::size_t>(size)};
}
mq_attr attributes_of(mqd_t queue) {
    mq_attr attributes{};
    CHECK(mq_getattr(queue, &attributes) == 0);
    return attributes;
}

// What notifications have said.
std::atomic<int> notified{0}, value_told{0}, code_told{0};
void on_message(int, siginfo_t* info, void*) {
    value_told = info->si_value.sival_int;
    code_told = info->si_code;
    ++notified;
}
void ask(mqd_t queue, int value) {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR1;
    event.sigev_value.sival_int = value;
    CHECK(mq_notify(queue, &event) == 0);
}

// He waits for a notification while the queue has messages: it comes with the first one into the empty queue.
struct Patient {
    mqd_t queue;
    std::string name;
    std::vector<std::pair<std::string, unsigned>> messages;
};

test::Check waits_beside_messages(const std::string& stem) {
    std::vector<Patient> all = {{-1, stem + "alone", {{"alone", 9}}},
                                {-1, stem + "empty", {{"", 0}}},
                                {-1, stem + "byte", {{std::string(1, 0), 3}}},
                                {-1, stem + "equal", {{"a", 5}, {"b", 5}, {"c", 5}, {"d", 5}}},
                                {-1, stem + "several", {{"x", 9}, {"y", 8}, {"z", 2}, {"z", 2}}}};
    static std::atomic<int> told{0}, value{0};
    struct sigaction action {};
    action.sa_sigaction = [](int, siginfo_t* info, void*) {
        value = info->si_value.sival_int;
        ++told;
    };
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    CHECK(sigaction(SIGUSR2, &action, nullptr) == 0);
    const auto begin = [](const Patient& each, int number) {
        sigevent event{};
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = SIGUSR2;
        event.sigev_value.sival_int = number;
        for (const auto& [text, priority] : each.messages)
            CHECK(mq_send(each.queue, text.data(), text.size(), priority) == 0);
        CHECK(mq_notify(each.queue, &event) == 0);
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].queue = make(all[i].name, O_RDWR, 4);
        begin(all[i], static_cast<int>(i));
    }
    return [=](bool last) {
        CHECK(told == 0);
        for (std::size_t i = 0; i < all.size(); ++i) {
            const Patient& each = all[i];
            for (const auto& [text, wanted] : each.messages) {
                unsigned priority = 99;
                CHECK(receive(each.queue, &priority) == text && priority == wanted);
            }
            CHECK(told == 0);
            send(each.queue, "now", 0);
            while (told == 0) test::nap(1);
            CHECK(told.exchange(0) == 1 && value == static_cast<int>(i));
            CHECK(receive(each.queue) == "now");
            if (!last) begin(each, static_cast<int>(i));
            if (last) CHECK(mq_unlink(each.name.c_str()) == 0);
        }
    };
}

}  // namespace

int main() {
    const std::string stem = "/cairn-test-" + std::to_string(getpid()) + "-" +
                             std::to_string(static_cast<long>(test::now(CLOCK_REALTIME) * 1e6));
    const std::string kept = stem + "kept", bell = stem + "bell", asks = stem + "ask",
                      answers = stem + "answer", full = stem + "full", silent = stem + "silent";
    const mqd_t queue = make(kept, O_RDWR, 8, 0640);
    const mqd_t writer = mq_open(kept.c_str(), O_WRONLY | O_NONBLOCK), copy = dup(queue);
    const mqd_t ring = make(bell, O_RDWR, 4), quiet = make(silent, O_RDWR, 4),
                ask_queue = make(asks, O_RDWR, 2), answer_queue = make(answers, O_RDWR, 2),
                full_queue = make(full, O_RDWR, 1);
    CHECK(writer >= 0 && copy >= 0 && mq_unlink(full.c_str()) == 0 && mq_unlink(asks.c_str()) == 0);
    const auto fill = [&] {
        send(queue, "low, first", 0);
        send(writer, "high", 31);
        send(queue, "low, second", 0);
        send(queue, "", 7);
    };
    fill();
    send(full_queue, "in", 1);

    const pid_t child = fork();
    if (child == 0)
        for (;;) send(answer_queue, (receive(ask_queue) + "!").c_str(), 3);
    CHECK(child > 0);
    static std::atomic<bool> over{false};
    std::thread([=] {
        while (!over) send(full_queue, "in", 1);
    }).detach();
    struct sigaction action {};
    action.sa_sigaction = on_message;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
    ask(ring, 77);
    sigevent none{};
    none.sigev_notify = SIGEV_NONE;
    CHECK(mq_notify(quiet, &none) == 0);

    const auto patient = waits_beside_messages(stem);
    int turn = 0;
    test::serve([&](bool last) {
        patient(last);
        CHECK(attributes_of(queue).mq_maxmsg == 8 && attributes_of(queue).mq_msgsize == message_size);
        CHECK(attributes_of(queue).mq_flags == 0 && attributes_of(writer).mq_flags == O_NONBLOCK);
        CHECK(attributes_of(queue).mq_curmsgs == 4 && attributes_of(copy).mq_curmsgs == 4);
        char text[message_size];
        CHECK(mq_receive(writer, text, sizeof text, nullptr) == -1 && errno == EBADF);
        struct stat status {};
        CHECK(fstat(queue, &status) == 0 && (status.st_mode & 0777) == 0640);
        unsigned priority = 0;
        CHECK(receive(queue, &priority) == "high" && priority == 31);
        CHECK(receive(copy, &priority).empty() && priority == 7);
        CHECK(receive(queue, &priority) == "low, first" && priority == 0 && receive(queue) == "low, second");
        fill();
        const mqd_t again = mq_open(kept.c_str(), O_RDONLY);
        CHECK(again >= 0 && attributes_of(again).mq_curmsgs == 4 && mq_close(again) == 0);

        send(ask_queue, "who", 1);  // the child sleeps for it
        CHECK(receive(answer_queue, &priority) == "who!" && priority == 3);
        CHECK(mq_open(full.c_str(), O_RDONLY) == -1 && errno == ENOENT);
        CHECK(receive(full_queue) == "in");  // a thread waits for room, or is on its way there
        for (int i = 0; attributes_of(full_queue).mq_curmsgs != 1; ++i) {
            CHECK(i < 10'000);
            test::nap(1);
        }
        if (last) over = true;
        // He has asked for a notification, and nobody else may.
        sigevent other{};
        other.sigev_notify = SIGEV_NONE;
        CHECK(mq_notify(ring, &other) == -1 && errno == EBUSY && mq_notify(quiet, &other) == -1 &&
              errno == EBUSY);
        CHECK(notified == turn);
        send(ring, "ring", 0);
        while (notified == turn) test::nap(1);
        CHECK(value_told == 77 + turn && code_told == SI_MESGQ && receive(ring) == "ring");
        ++turn;
        ask(ring, 77 + turn);
        if (!last) return;
        CHECK(kill(child, SIGKILL) == 0 && mq_unlink(kept.c_str()) == 0 && mq_unlink(bell.c_str()) == 0 &&
              mq_unlink(answers.c_str()) == 0 && mq_unlink(silent.c_str()) == 0);
    });
}
