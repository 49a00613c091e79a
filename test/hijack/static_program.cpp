// Linked statically: a program that doesn't load the library. Exits 0 if its environment has nothing of ours.
#include <cstdlib>
#include <cstring>

int main() {
    const char* preload = std::getenv("LD_PRELOAD");
    if (preload != nullptr && std::strstr(preload, "libcairn") != nullptr) return 1;
    return std::getenv("CAIRN_REGION") == nullptr && std::getenv("CAIRN_LIBRARY") == nullptr ? 0 : 2;
}
