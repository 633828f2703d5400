"""The literature that the metrics come from."""

from __future__ import annotations

SOURCES: dict[str, str] = {
    "cheng": "B. Cheng, R. Girshick, P. Dollár, A. C. Berg, A. Kirillov: Boundary IoU: Improving Object-Centric Image "
    "Segmentation Evaluation. CVPR, 2021.",
    "coelho": "L. P. Coelho, A. Shariff, R. F. Murphy: Nuclear segmentation in microscope cell images: a "
    "hand-segmented dataset and comparison of algorithms. ISBI, 2009.",
    "cohen": "J. Cohen: A coefficient of agreement for nominal scales. Educational and Psychological Measurement 20, "
    "1960.",
    "conic": "S. Graham and others: CoNIC Challenge: Pushing the frontiers of nuclear detection, segmentation, "
    "classification and counting. Medical Image Analysis 92, 2024.",
    "dice": "L. R. Dice: Measures of the amount of ecologic association between species. Ecology 26, 1945.",
    "everingham": "M. Everingham and others: The PASCAL Visual Object Classes Challenge: a retrospective. IJCV 111, "
    "2015.",
    "froc": "B. Ehteshami Bejnordi and others: Diagnostic assessment of deep learning algorithms for detection of "
    "lymph node metastases in women with breast cancer (CAMELYON16). JAMA 318(22), 2017.",
    "geifman": "Y. Geifman, R. El-Yaniv: Selective classification for deep neural networks. NeurIPS, 2017.",
    "glas": "K. Sirinukunwattana and others: Gland segmentation in colon histology images: The GlaS challenge contest. "
    "Medical Image Analysis 35, 2017.",
    "gorodkin": "J. Gorodkin: Comparing two K-category assignments by a K-category correlation coefficient. "
    "Computational Biology and Chemistry 28, 2004.",
    "hanley": "J. A. Hanley, B. J. McNeil: The meaning and use of the area under a receiver operating characteristic "
    "(ROC) curve. Radiology 143, 1982.",
    "hirling": "D. Hirling and others: Segmentation metric misinterpretations in bioimage analysis. Nature Methods "
    "21, 2024.",
    "hovernet": "S. Graham and others: HoVer-Net: Simultaneous segmentation and classification of nuclei in "
    "multi-tissue histology images. Medical Image Analysis 58, 2019.",
    "huttenlocher": "D. P. Huttenlocher, G. A. Klanderman, W. J. Rucklidge: Comparing images using the Hausdorff "
    "distance. IEEE TPAMI 15(9), 1993.",
    "jaccard": "P. Jaccard: The distribution of the flora in the alpine zone. New Phytologist 11, 1912.",
    "kirillov": "A. Kirillov, K. He, R. Girshick, C. Rother, P. Dollár: Panoptic Segmentation. CVPR, 2019.",
    "kumar": "N. Kumar and others: A dataset and a technique for generalized nuclear segmentation for computational "
    "pathology. IEEE TMI 36(7), 2017.",
    "lessons": "A. Foucart, O. Debeir, C. Decaestecker: Evaluating participating methods in image analysis challenges: "
    "lessons from MoNuSAC 2020. Pattern Recognition 141, 2023.",
    "lin": "T.-Y. Lin and others: Microsoft COCO: Common Objects in Context. ECCV, 2014.",
    "nikolov": "S. Nikolov and others: Clinically applicable segmentation of head and neck anatomy for radiotherapy: "
    "deep learning algorithm development and validation study. Journal of Medical Internet Research 23(7), 2021.",
    "quality": "A. Foucart, O. Debeir, C. Decaestecker: Panoptic quality should be avoided as a metric for assessing "
    "cell nuclei segmentation and classification in digital pathology. Scientific Reports 13, 2023.",
    "reinke": "A. Reinke and others: How to exploit weaknesses in biomedical challenge design and organization. "
    "MICCAI, 2018.",
    "rijsbergen": "C. J. van Rijsbergen: Information Retrieval. Butterworths, 1979.",
    "surface": "T. Heimann and others: Comparison and evaluation of methods for liver segmentation from CT datasets. "
    "IEEE TMI 28(8), 2009.",
    "vu": "Q. D. Vu and others: Methods for segmentation and classification of digital microscopy tissue images. "
    "Frontiers in Bioengineering and Biotechnology 7, 2019.",
}

OF_PAGES: dict[str, tuple[str, ...]] = {  # by what the page is or begins with
    "detection.precision": ("rijsbergen",),
    "detection.recall": ("rijsbergen",),
    "detection.f1": ("rijsbergen", "hovernet"),
    "detection.threat_score": ("hirling",),
    "detection.macro_f1": ("rijsbergen",),
    "detection.per_class.precision": ("rijsbergen",),
    "detection.per_class.recall": ("rijsbergen",),
    "detection.per_class.f1": ("rijsbergen", "kirillov"),
    "detection.per_class.f_c": ("hovernet",),
    "classification.": ("lessons",),
    "classification.mcc": ("gorodkin",),
    "classification.kappa": ("cohen",),
    "classification.auroc": ("hanley",),
    "classification.per_class.auroc": ("hanley",),
    "segmentation.": ("lessons",),
    "segmentation.iou": ("jaccard",),
    "segmentation.dice": ("dice",),
    "segmentation.boundary_iou": ("cheng",),
    "segmentation.surface_dice": ("nikolov",),
    "segmentation.hausdorff": ("huttenlocher",),
    "segmentation.mean_surface_distance": ("surface",),
    "panoptic.": ("kirillov", "quality"),
    "panoptic.pq": ("conic",),
    "covered.": ("geifman", "reinke"),
    "overall.": ("kirillov", "reinke"),
    "thresholds.": ("hirling",),
    "curves.": ("everingham",),
    "curves.coco": ("lin",),
    "curves.per_class.coco": ("lin",),
    "curves.froc": ("froc",),
    "curves.sensitivity": ("froc",),
    "curves.per_class.froc": ("froc",),
    "overlap.aji": ("kumar",),
    "overlap.aji_plus": ("hovernet",),
    "overlap.dice1": ("dice", "hovernet"),
    "overlap.dice2": ("vu", "hovernet"),
    "overlap.splits": ("coelho",),
    "overlap.merges": ("coelho",),
    "objects.": ("glas",),
    "counting.": ("conic",),
}


def sources_of(page: str) -> list[str]:
    """The literature of a page, what is nearest to it first.

    >>> [source.split(":")[0] for source in sources_of("classification.kappa")]
    ['J. Cohen', 'A. Foucart, O. Debeir, C. Decaestecker']
    """
    found = [
        key for start in sorted(OF_PAGES, key=len, reverse=True) if page.startswith(start) for key in OF_PAGES[start]
    ]
    return [SOURCES[key] for key in dict.fromkeys(found)]
