// The generations of a computation's checkpoint that are there already.
#pragma once

#include <string>

namespace cairn::capture {

// The images' folder is D/CID/N.partial, or, of one of several hosts, D/CID/N.partial/HOST.
struct ImagesFolder {
    std::string all;       // D
    std::string previous;  // of the newest generation that is whole, this host's; "": none
};

// `directory`: where the images of the checkpoint go that is being taken. A generation that hasn't a file of
// this name doesn't count.
[[nodiscard]] ImagesFolder find_images(const std::string& directory, const std::string& host,
                                       const char* having);

}  // namespace cairn::capture
