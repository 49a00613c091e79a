// Keyrings of a program's own: one of a thread, of the process, of a session. The kernel lets nobody read
// what they hold: the checkpoint says so (keyrings.py), and disturbs none of them.
// rain: soak
#include <linux/keyctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "support.h"

namespace {

long add_key(const char* name, int keyring) {
    return syscall(SYS_add_key, "user", name, "secret", 6, keyring);
}

bool has(int keyring, const char* name, long key) {
    char secret[8] = "";
    return syscall(SYS_keyctl, KEYCTL_SEARCH, keyring, "user", name, 0) == key &&
           syscall(SYS_keyctl, KEYCTL_READ, key, secret, sizeof secret) == 6 &&
           std::strcmp(secret, "secret") == 0;
}

bool none(int keyring) {
    return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, keyring, 0) == -1 && errno == ENOKEY;
}

}  // namespace

int main() {
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr) < 0) test::skip("keyrings are not allowed");
    const long ours = add_key("cairn-test-process", KEY_SPEC_PROCESS_KEYRING),
               session = add_key("cairn-test-session", KEY_SPEC_SESSION_KEYRING),
               another = add_key("cairn-test-another", KEY_SPEC_SESSION_KEYRING);
    CHECK(ours > 0 && session > 0 && another > 0);
    std::atomic<int> asked{0}, answered{0};
    std::thread([&] {
        const long own = add_key("cairn-test-thread", KEY_SPEC_THREAD_KEYRING);
        CHECK(own > 0);
        for (++answered;; test::nap(1))
            if (asked >= answered) {
                CHECK(has(KEY_SPEC_THREAD_KEYRING, "cairn-test-thread", own));
                ++answered;
            }
    }).detach();
    while (answered == 0) test::nap(1);
    test::serve([&](bool) {
        CHECK(has(KEY_SPEC_PROCESS_KEYRING, "cairn-test-process", ours) && none(KEY_SPEC_THREAD_KEYRING));
        CHECK(has(KEY_SPEC_SESSION_KEYRING, "cairn-test-session", session));
        const int before = answered;
        ++asked;
        while (answered == before) test::nap(1);
    });
}
