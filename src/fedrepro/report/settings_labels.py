"""How settings are told in plain words. What has no phrase here is told as `name, option value`: nothing has to be added."""

# (kind, name) -> phrase; options stand in braces. What it does not name is told behind it, unless it is SILENT.
CHOICES = {
    ("algorithm", "fedavg"): "FedAvg",
    ("algorithm", "fedmmd"): "FedMMD, λ = {weight}, on {outputs}, {kernel}, constant below {floor}",
    ("algorithm", "l2"): "two-stream L2, λ = {weight}",
    ("algorithm", "fedprox"): "FedProx, μ = {mu}, squares {norm}",
    ("algorithm", "fedfusion"): "FedFusion, operator {operator}, its gates' moving average {ema}, tested with {tested_with}",
    ("algorithm", "fedmax"): "FedMAX, β = {beta}, {direction}, {reduction}",
    ("algorithm", "activation_l2"): "L2 penalty, β = {beta}, {norm}",
    ("algorithm", "fedcl"): "FedCL, λ = {weight}, Ω: {importance}",
    ("algorithm", "fedcurv"): "FedCurv, λ = {weight}",
    ("algorithm", "fednova"): "FedNova",
    ("algorithm", "fedma"): "FedMA, γ = {gamma}, {posterior}, global units: {units}, {grow}",
    ("algorithm", "psi_net"): "Psi-Net, groups: {groups}, from {grouped_from} on, classes {classes}, {norm}, {trim}, {softmax}",
    ("algorithm", "scaffold"): "SCAFFOLD, rate of the server {server_lr}",
    ("partition", "iid"): "{clients} clients, random equal parts",
    ("partition", "permuted"): "{clients} clients, random equal parts, each with its own order of the pixels",
    ("partition", "shards"): "{clients} clients, {shards} label-sorted shards each",
    ("partition", "classes"): "{clients} clients with whole classes, dealt {redraw}",
    ("partition", "balanced_classes"): "{clients} clients with {classes_per_client} classes each, every class equally often",
    ("partition", "dirichlet"): "{clients} clients, class shares of each from Dirichlet(α = {alpha}), prior {prior}",
    ("partition", "dirichlet_by_class"): "{clients} clients, shares of each class from Dirichlet(α = {alpha})",
    ("partition", "natural"): "{clients} of the data's own devices",
    ("model", "mnist_cnn"): "MNIST network {arch}, {init} start",
    ("model", "cifar_cnn"): "CIFAR network {arch}, {init} start",
    ("model", "fedmax_cnn"): "FedMAX's network, {init} start",
    ("model", "pfl_cnn"): "pfl-research's network, {init} start",
    ("model", "vgg9"): "VGG9, {init} start",
    ("model", "vgg16"): "VGG16, {init} start",
    ("model", "mobilenet"): "MobileNetV1, {init} start",
    ("model", "logistic"): "logistic regression, {init} start",
    ("schedule", "constant"): "the same in every round",
    ("schedule", "exponential"): "times {decay} after every round",
    ("schedule", "cosine"): "then down half a cosine",
    ("task", "classification"): "classification by cross entropy",
    ("task", "regression"): "ordered classes as one number, by squared error",
}

# (kind, option) -> the value that needs no word, whatever name has the option
SILENT = {
    ("algorithm", "every"): 1,
    ("algorithm", "bias"): True,
    ("partition", "permute_pixels"): True,
    ("partition", "overlap"): False,
    ("partition", "groups"): None,
    ("partition", "size"): None,
    ("model", "width"): 1.0,
    ("model", "dropout"): 0.0,
    ("model", "norm"): "none",
    ("model", "norm_groups"): None,
    ("model", "frozen"): [],
    ("schedule", "floor"): 0.0,
    ("schedule", "period"): None,
    ("schedule", "late"): False,
    ("task", "thresholds"): None,
}

# (kind, option) -> what its values are called
VALUES = {
    ("algorithm", "outputs"): {"logits": "the logits", "features": "the layer before the logits"},
    ("algorithm", "kernel"): {"fixed19": "19 fixed Gaussians", "mean_distance": "5 Gaussians around the mean distance"},
    ("algorithm", "norm"): {
        "sum": "summed over all weights",
        "mean": "averaged within each tensor",
        "frobenius": "Frobenius norm of the whole batch",
        "samples": "mean of the images' norms",
        "group": "group normalisation in each group",
        "model": "the network's own normalisation",
    },
    ("algorithm", "groups"): {None: "one for each class"},
    ("algorithm", "grouped_from"): {None: "the first dense layer"},
    ("algorithm", "grow"): {True: "widths grow", False: "widths stay"},
    ("algorithm", "posterior"): {"code": "posterior as in the code", "paper": "posterior of PFNM"},
    ("algorithm", "units"): {"mean": "means of what is matched", "posterior": "means of the posterior"},
    ("algorithm", "trim"): {True: "groups without local classes trimmed", False: "nothing trimmed"},
    ("algorithm", "softmax"): {"held": "local softmax over the groups held", "all": "local softmax over all groups"},
    ("algorithm", "tested_with"): {"previous": "the extractor of the round before", "new": "its own extractor"},
    ("algorithm", "direction"): {"uniform_activation": "KL(U || p)", "activation_uniform": "KL(p || U)"},
    ("algorithm", "reduction"): {"elements": "divided by the width", "samples": "not divided by the width"},
    ("algorithm", "importance"): {
        "layer_squares": "squared gradients of batches, one number a tensor",
        "layer_norm": "norm of each image's gradient, one number a tensor",
        "layer_outputs": "gradients of squared scores, one number a tensor",
        "absolute": "absolute gradients, one number a weight",
        "fisher": "diagonal Fisher information, one number a weight",
        "identity": "1",
    },
    ("algorithm", "fallback"): {"local": "estimated by the client", "identity": "taken as 1", "none": "no penalty"},
    ("partition", "alpha"): {"uniform": "∞"},
    ("partition", "redraw"): {True: "anew every round", False: "once"},
    ("partition", "prior"): {"unit": "α per class", "classes": "α by class frequency"},
    ("model", "arch"): {
        "paper": "of the paper's text",
        "code": "of the authors' code",
        "fusion_code": "of FedFusion's code",
    },
    ("model", "init"): {"pytorch": "torch's default", "glorot": "Glorot", "truncated_normal": "truncated-normal"},
}

# option -> its name in words, where it is told behind the phrase
OPTIONS = {"groups": "classes", "width": "width times", "norm": "normalisation", "frozen": "frozen weights", "floor": "down to"}
OPTIONS |= {
    "every": "sent in one round of",
    "fallback": "in rounds without it",
    "late": "one round late",
    "bias": "the convolution's bias",
}

INPUTS = {
    "raw": "as stored",
    "unit": "pixels scaled to 0 to 1",
    "half": "pixels scaled to -0.5 to 0.5",
    "standardised": "each image to mean 0 and deviation 1",
    "normalised": "by mean and deviation of the training images, per channel",
}
CHANGES = {
    "crop": "random crop",
    "reflected_crop": "random crop with mirrored borders",
    "resized_crop": "random resized crop",
    "flip": "random mirroring",
    "vertical_flip": "random mirroring upside down",
    "affine": "random turn, shear and enlargement",
    "brightness": "random brightness",
    "contrast": "random contrast",
    "contrast_jitter": "random contrast around the mean grey",
}
WEIGHTING = {"uniform": "every client counts the same", "samples": "clients count by their images"}
PRECISION = {"float32": "single precision (float32)", "float64": "double precision (float64)"}
