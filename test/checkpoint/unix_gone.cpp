// A listening Unix socket whose name, or whose whole folder, others take away while nothing runs
// (unix_gone.py), as python's multiprocessing does at its end: unix_gone.cpp [PATH]. Who calls by the name is
// served.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>

#include "support.h"

int main(int argc, char** argv) {
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    std::strncpy(name.sun_path, argc > 1 ? argv[1] : "gone.socket", sizeof name.sun_path - 1);
    const auto* address = reinterpret_cast<const sockaddr*>(&name);
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(listener >= 0 && bind(listener, address, sizeof name) == 0 && listen(listener, 5) == 0);
    CHECK(chmod(name.sun_path, 0640) == 0);
    test::serve([&](bool) {
        const int caller = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(caller >= 0 && connect(caller, address, sizeof name) == 0);
        const int accepted = accept(listener, nullptr, nullptr);
        char byte = 'x';
        CHECK(accepted >= 0 && write(caller, &byte, 1) == 1 && read(accepted, &byte, 1) == 1);
        struct stat status {};
        CHECK(stat(name.sun_path, &status) == 0 && (status.st_mode & 07777) == 0640 &&
              status.st_uid == geteuid());
        CHECK(close(caller) == 0 && close(accepted) == 0);
    });
}
