// place(): a frame as every report and the viewer show it.
#pragma once

#include <string>

#include "store/store.h"

namespace gpumemprof::text {

// How every report and the viewer show a frame: "torch/nn/functional.py:2543 linear", "train.py:12
// step". The file is shown as in analysis/code/shown_file.h.
std::string place(const Store& store, FrameId frame);
// The same in at most `width` columns: the function is shortened first, then folders; the file name
// and the line stay.
std::string place(const Store& store, FrameId frame, std::size_t width);

}  // namespace gpumemprof::text
